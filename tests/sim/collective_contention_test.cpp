// Kernels beside collectives against closed forms: arithmetic has fewer multiprocessors, memory
// traffic less bandwidth.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "sim/engine/cost_table.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"

namespace tidemark::collective_contention_test {
namespace {

// Kernels on compute, and beside the first of them collectives on queues of their own, which nobody
// waits for.
struct Beside {
  TrainingGraph graph;
  CostTable costs;

  Beside() { graph.name = "beside"; }

  OperatorId add(OperatorClass op_class, MeshDimension group, Duration device, Duration memory,
                 Duration slack, double tax) {
    const StorageId made = graph.storages.push_back({.bytes = Bytes(1), .name = "s"});
    Operator op{.name = "op"};
    op.work.op_class = op_class;
    op.work.collective = {.kind = CollectiveKind::kAllGather, .group = group, .bytes = Bytes(1)};
    const OperatorId id = graph.add_operator(std::move(op), {{{made, Access::kCreate}}});
    graph.part(PartKind::kForward).push_back(id);
    costs.device.push_back(device);
    costs.dispatch.push_back(Duration(0));
    costs.memory.push_back(memory);
    costs.slack.push_back(slack);
    costs.tax_collective.push_back(tax);
    costs.link_use.push_back({});
    return id;
  }
  void kernel(Duration device, Duration memory, Duration slack) {
    add(OperatorClass::kElementwise, MeshDimension::kData, device, memory, slack, 0);
  }
  void collective(MeshDimension group, Duration device, double tax, LinkUse use = {}) {
    const OperatorId id = add(OperatorClass::kCollective, group, device, Duration(0), device, tax);
    costs.link_use[id] = use;
  }

  // The time that compute works.
  [[nodiscard]] std::int64_t busy() const { return busy_on(Stream::kCompute); }
  [[nodiscard]] std::int64_t busy_on(Stream stream) const {
    const ProgramOrder order = program_order(graph, 1);
    const Liveness live = analyze_liveness(graph, order);
    ResidencyPlan plan(live);
    const StepProgram program = lower(graph, order, live, plan.decisions(), {}, {});
    REQUIRE(verify(graph, order, order, program).empty());
    IdealAllocator allocator{kGiB};
    allocator.reserve(program.allocations.size());
    Scratch scratch;
    scratch.prepare(program, false);
    const RunResult result = run(program, costs, allocator, scratch, {});
    REQUIRE(result.status == RunStatus::kCompleted);
    return result.busy[static_cast<std::size_t>(stream)].count();
  }
};

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("arithmetic goes on at the rate of the multiprocessors that collectives leave") {
    // A collective of 400 ns takes a quarter of the multiprocessors: 300 of 1000 ns are done in it.
    Beside one;
    one.collective(MeshDimension::kData, Duration(400), 0.01);
    one.kernel(Duration(1000), Duration(100), Duration(900));
    CHECK(one.busy() == 1000);  // multiprocessors not known
    one.costs.collective_multiprocessors = 0.25;
    CHECK(one.busy() == 1100);
    // A second one, on a queue of its own, takes as many again; together at most half.
    Beside two;
    two.collective(MeshDimension::kData, Duration(400), 0.01);
    two.collective(MeshDimension::kShard, Duration(400), 0.01);
    two.kernel(Duration(1000), Duration(100), Duration(900));
    for (const double share : {0.25, 0.4}) {
      two.costs.collective_multiprocessors = share;
      CHECK(two.busy() == 1200);
    }
  }

  TEST_CASE("memory traffic beside a collective has the bandwidth that it leaves") {
    // While a collective of 500 ns takes half as much as the kernel, 1000 ns of traffic take 1.5
    // times as long.
    Beside traffic;
    traffic.collective(MeshDimension::kData, Duration(600), 0.5);
    traffic.kernel(Duration(1000), Duration(1000), Duration(0));
    CHECK(traffic.busy() == 1200);
    // Multiprocessors do not matter to it, nor bandwidth to a kernel with slack.
    traffic.costs.collective_multiprocessors = 0.25;
    CHECK(traffic.busy() == 1200);
    Beside slack;
    slack.collective(MeshDimension::kData, Duration(600), 0.5);
    slack.kernel(Duration(1000), Duration(500), Duration(500));
    CHECK(slack.busy() == 1000);
    // No kernel is slowed down before or behind the collective.
    slack.costs.collective_multiprocessors = 0.4;
    slack.kernel(Duration(5000), Duration(100), Duration(4900));
    CHECK(slack.busy() == 6240);
  }

  TEST_CASE("collectives that together ask for more than a link has run that much longer") {
    // Both fill the links inside the node: each goes on at half its rate while the other runs. The
    // shorter one is done after 800 ns; 600 of the other's 1000 ns are left then.
    Beside both;
    both.collective(MeshDimension::kData, Duration(400), 0.01, {.inside = 1});
    both.collective(MeshDimension::kShard, Duration(1000), 0.01, {.inside = 1});
    CHECK(both.busy_on(Stream::kDataGroup) == 800);
    CHECK(both.busy_on(Stream::kShardGroup) == 1400);
    // Each is on the link for 300 of its 400 ns, which take 500 then.
    Beside part;
    part.collective(MeshDimension::kData, Duration(400), 0.01, {.inside = 0.75});
    part.collective(MeshDimension::kShard, Duration(400), 0.01, {.inside = 0.75});
    CHECK(part.busy_on(Stream::kDataGroup) == 600);
    CHECK(part.busy_on(Stream::kShardGroup) == 600);
    Beside room;
    room.collective(MeshDimension::kData, Duration(400), 0.01, {.inside = 0.5});
    room.collective(MeshDimension::kShard, Duration(1000), 0.01, {.inside = 0.5});
    CHECK(room.busy_on(Stream::kDataGroup) == 400);
    CHECK(room.busy_on(Stream::kShardGroup) == 1000);
    // A node's links and its adapters are two things; a ring over both waits for the slower one.
    Beside apart;
    apart.collective(MeshDimension::kData, Duration(400), 0.01, {.network = 1});
    apart.collective(MeshDimension::kTensor, Duration(400), 0.01, {.inside = 1});
    CHECK(apart.busy_on(Stream::kDataGroup) == 400);
    CHECK(apart.busy_on(Stream::kTensorGroup) == 400);
    Beside three;
    three.collective(MeshDimension::kData, Duration(600), 0.01, {.inside = 0.5, .network = 1});
    three.collective(MeshDimension::kTensor, Duration(600), 0.01, {.inside = 1});
    three.collective(MeshDimension::kPipeline, Duration(600), 0, {.network = 1});
    // For 1200 ns the adapter is asked for twice. Inside, 1 / S + 0.5 / (0.5 + 0.5 S) = 1: S is the
    // golden ratio, and 600 ns take 970.8.
    CHECK(three.busy_on(Stream::kDataGroup) == 1200);
    CHECK(three.busy_on(Stream::kPipelineGroup) == 1200);
    CHECK(three.busy_on(Stream::kTensorGroup) == 971);
    // A message that waits most of its time is hardly slowed down, and slows others as little.
    Beside small;
    small.collective(MeshDimension::kData, Duration(10000), 0.01, {.inside = 1});
    small.collective(MeshDimension::kTensor, Duration(1000), 0.01, {.inside = 0.02});
    CHECK(small.busy_on(Stream::kTensorGroup) == 1000);
    CHECK(small.busy_on(Stream::kDataGroup) == 10020);
  }

  TEST_CASE("what shares a link takes no more of the device's memory together") {
    // Alone each takes half as much as the kernel: 1000 ns of traffic beside 600 of one.
    Beside shared;
    shared.collective(MeshDimension::kData, Duration(300), 0.5, {.inside = 1});
    shared.collective(MeshDimension::kShard, Duration(300), 0.5, {.inside = 1});
    shared.kernel(Duration(1000), Duration(1000), Duration(0));
    CHECK(shared.busy() == 1200);
  }

  TEST_CASE("a collective takes the bandwidth of what it reads and writes") {
    DeviceProfile profile{};
    profile.hbm.bandwidth = {1e12};
    profile.multiprocessors = 100;
    profile.links.nvlink = {300e9};
    profile.links.collective = {.bandwidth = {200e9}, .channels = 16};
    profile.host.gpus = 8;
    TrainingGraph graph;
    for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kAllReduce,
                                      CollectiveKind::kSend, CollectiveKind::kReceive}) {
      Operator op{.name = "op"};
      op.work.op_class = OperatorClass::kCollective;
      op.work.collective = {.kind = kind, .group = MeshDimension::kData, .bytes = Bytes(1 << 30)};
      graph.add_operator(std::move(op), {});
    }
    const CostTable table = price(graph, CostModel(profile), data_mesh(8, profile));
    CHECK(table.collective_multiprocessors == doctest::Approx(0.16));
    REQUIRE(table.tax_collective.size() == 4);
    // Read and written: twice what is sent at 200 of 1000 GB/s.
    CHECK(table.tax_collective[OperatorId(0U)] == doctest::Approx(0.4));
    CHECK(table.tax_collective[OperatorId(1U)] == doctest::Approx(0.4));
    CHECK(table.tax_collective[OperatorId(2U)] == 0);
    CHECK(table.tax_collective[OperatorId(3U)] == 0);
    CHECK(price(graph, CostModel(profile), data_mesh(1, profile)).tax_collective.empty());
    // Without floor and ramp all of the time is on the links of the node.
    REQUIRE(table.link_use.size() == 4);
    CHECK(table.link_use[OperatorId(0U)].inside == doctest::Approx(1));
    CHECK(table.link_use[OperatorId(2U)].inside == doctest::Approx(1));
    CHECK(table.link_use[OperatorId(3U)].inside == 0);
    CHECK(table.link_use[OperatorId(0U)].network == 0);
    // A floor of as long as the transfer leaves half of them.
    profile.links.collective.floor = table.device[OperatorId(0U)];
    const CostTable slower = price(graph, CostModel(profile), data_mesh(8, profile));
    CHECK(slower.link_use[OperatorId(0U)].inside == doctest::Approx(0.5));
  }
}

}  // namespace tidemark::collective_contention_test
