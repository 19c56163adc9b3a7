// Copies against closed forms: how much hides behind compute, what stalls, what copies cost each
// other.
#include <numeric>

#include <doctest/doctest.h>

#include "sim/engine/engine.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/memory/page_locked_memory.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"

namespace tidemark::transfer_test {

namespace {

constexpr int kLayers = 12;
constexpr std::int64_t kBytes = 1000;  // one nanosecond per byte below, unless said otherwise

// Equal layers: each forward makes a saved activation, each backward reads it.
struct Chain {
  TrainingGraph graph;
  ProgramOrder order;
  Liveness live;
  CostTable costs;

  // `collective` is the time alone of one that starts with the step, if that is not 0.
  Chain(Duration forward, Duration backward, Duration collective = Duration(0)) {
    graph.name = "chain";
    graph.blocks = kLayers;
    const auto storage = [&](Role role, std::int64_t bytes) {
      return graph.storages.push_back({.bytes = Bytes(bytes), .role = role, .name = "s"});
    };
    const auto add = [&](std::string name, Phase phase, Duration fixed,
                         std::vector<Touch> touches) {
      Operator op;
      op.name = std::move(name);
      op.phase = phase;
      op.work = {.op_class = OperatorClass::kFixed, .fixed = fixed};
      return graph.add_operator(std::move(op), touches);
    };
    std::vector<StorageId> saved;
    StorageId x = storage(Role::kInput, 1);
    graph.storages[x].initial = true;
    if (collective > Duration(0)) {
      const StorageId made = storage(Role::kTemporary, 1);
      Operator op{.name = "all_gather", .phase = Phase::kForward};
      op.work = {.op_class = OperatorClass::kCollective, .fixed = collective};
      op.work.collective = {
          .kind = CollectiveKind::kAllGather, .group = MeshDimension::kData, .bytes = Bytes(1)};
      graph.part(PartKind::kForward)
          .push_back(graph.add_operator(std::move(op), {{{made, Access::kCreate}}}));
    }
    for (int i = 0; i < kLayers; ++i) {
      saved.push_back(storage(Role::kSavedActivation, kBytes));
      const StorageId next = storage(Role::kTemporary, 1);
      graph.part(PartKind::kForward)
          .push_back(
              add("forward", Phase::kForward, forward,
                  {{x, Access::kRead}, {next, Access::kCreate}, {saved.back(), Access::kCreate}}));
      x = next;
    }
    for (int i = kLayers; i-- > 0;) {
      const StorageId next = storage(Role::kActivationGradient, 1);
      graph.part(PartKind::kBackward)
          .push_back(add("backward", Phase::kBackward, backward,
                         {{x, Access::kRead},
                          {saved[static_cast<std::size_t>(i)], Access::kRead},
                          {next, Access::kCreate}}));
      x = next;
    }
    check_invariants(graph);
    order = program_order(graph, 1);
    live = analyze_liveness(graph, order);
    for (const Operator& op : graph.operators) {
      costs.device.push_back(op.work.fixed);
      costs.dispatch.push_back(Duration(0));
      const bool communicates = op.work.op_class == OperatorClass::kCollective;
      costs.tax_collective.push_back(0);
      costs.link_use.push_back({.inside = communicates ? 1.0 : 0.0});
    }
    costs.copy_out = {.ns_per_byte_alone = 1, .ns_per_byte_duplex = 1};
    costs.copy_in = costs.copy_out;
    costs.nvme_read = costs.copy_out;
    costs.nvme_write = costs.copy_out;
  }

  // Layer i is copied out when its forward ends, freed before the forward of layer i + 2, and
  // fetched before the backward of layer i + 1.
  [[nodiscard]] ResidencyPlan offload(Tier tier) const {
    ResidencyPlan plan(live);
    plan.begin_policy(0, "test");
    for (GapId id : ids_of(live.gaps)) {
      const Gap& gap = live.gaps[id];
      if (!gap.open() || graph.storages[gap.storage].role != Role::kSavedActivation) continue;
      const std::uint32_t first = graph.operators.size() > 2 * kLayers ? 1 : 0;
      const std::uint32_t layer = gap.from.value - first;
      if (layer + 2 >= kLayers) continue;
      plan.decide(id, Offload{.fetch_at = Position(first + 2 * kLayers - 1 - (layer + 1)),
                              .release_at = Position(first + layer + 2),
                              .tier = tier});
    }
    return plan;
  }

  [[nodiscard]] RunResult simulate(const ResidencyPlan& plan, const RunOptions& options,
                                   StepProgram* kept = nullptr) const {
    StepProgram program = lower(graph, order, live, plan.decisions(), {}, plan.throttles());
    REQUIRE(verify(graph, order, order, program).empty());
    IdealAllocator allocator{kGiB};
    allocator.reserve(program.allocations.size());
    Scratch scratch;
    scratch.prepare(program, false, options.page_locked);
    const RunResult result = run(program, costs, allocator, scratch, options);
    if (kept != nullptr) *kept = std::move(program);
    return result;
  }
};

constexpr RunOptions kRoomy{.host_capacity = kGiB, .nvme_capacity = kGiB};
std::int64_t exposed(const RunResult& run, Stream stream) {
  return run.exposed[static_cast<std::size_t>(stream)].count();
}

}  // namespace

TEST_SUITE("paper") {
  TEST_CASE("copies shorter than their layer hide; longer ones stall by exactly the difference") {
    for (const std::int64_t layer : {1000, 1001, 1700, 999, 600, 250, 1}) {
      CAPTURE(layer);
      const Chain chain{Duration(layer), Duration(layer)};
      const RunResult result = chain.simulate(chain.offload(Tier::kHost), kRoomy);
      REQUIRE(result.status == RunStatus::kCompleted);
      // Layers 0 .. n-3 are copied out and back; each copy takes 1000 ns.
      const std::int64_t stall = std::max<std::int64_t>(0, kBytes - layer) * (kLayers - 2);
      CHECK(exposed(result, Stream::kCopyOut) == stall);
      CHECK(exposed(result, Stream::kCopyIn) == stall);
      CHECK(result.exposed_transfer.count() == 2 * stall);
      CHECK(result.step.count() == 2 * kLayers * layer + 2 * stall);
    }
  }

  TEST_CASE("forward and backward of different lengths stall apart") {
    const Chain chain{Duration(400), Duration(900)};
    const RunResult result = chain.simulate(chain.offload(Tier::kHost), kRoomy);
    CHECK(exposed(result, Stream::kCopyOut) == (kLayers - 2) * 600);
    CHECK(exposed(result, Stream::kCopyIn) == (kLayers - 2) * 100);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("without NVLink copies and collectives share the link to the host") {
    // Copies of 1000 ns start every 3000 ns. The collective has 2000 of its 5000 ns left when the
    // first one does: both go on at half their rate for 2000 ns, and it ends before the second.
    Chain chain(Duration(3000), Duration(3000), Duration(5000));
    const auto busy = [&](Stream stream) {
      return chain.simulate(chain.offload(Tier::kHost), kRoomy)
          .busy[static_cast<std::size_t>(stream)]
          .count();
    };
    CHECK(busy(Stream::kDataGroup) == 5000);
    CHECK(busy(Stream::kCopyOut) == 10 * 1000);
    chain.costs.copies_share_inside = true;
    CHECK(busy(Stream::kDataGroup) == 6000);
    CHECK(busy(Stream::kCopyOut) == 2000 + 9 * 1000);
  }

  TEST_CASE("NVMe is reached through a page-locked buffer: write behind the copy, read before it") {
    // Writes and reads of 1000 and 500 ns during layers of 1200: nothing waits. At most two of each
    // are in flight, so that few buffers are page-locked at once.
    Chain chain{Duration(1200), Duration(1200)};
    chain.costs.nvme_read.ns_per_byte_alone = 0.5;
    ResidencyPlan plan = chain.offload(Tier::kNvme);
    plan.throttle({.stream = Stream::kNvmeWrite, .in_flight = 1});
    plan.throttle({.stream = Stream::kNvmeRead, .in_flight = 1});
    plan.throttle({.stream = Stream::kCopyIn, .in_flight = 1});
    StepProgram program;
    const RunResult result = chain.simulate(plan, kRoomy, &program);
    REQUIRE(result.status == RunStatus::kCompleted);
    CHECK(result.busy[static_cast<std::size_t>(Stream::kNvmeWrite)].count() ==
          (kLayers - 2) * 1000);
    CHECK(result.busy[static_cast<std::size_t>(Stream::kNvmeRead)].count() == (kLayers - 2) * 500);
    CHECK(exposed(result, Stream::kCopyOut) == 0);
    CHECK(exposed(result, Stream::kNvmeWrite) == 0);
    CHECK(result.nvme.bytes.count == (kLayers - 2) * kBytes);
    CHECK(result.host.bytes.count <= 5 * kBytes);
    CHECK(result.step.count() == 2 * kLayers * 1200);
  }

  TEST_CASE("host memory and NVMe that run out are results that name what was asked for") {
    const Chain chain{Duration(1000), Duration(1000)};
    RunResult result = chain.simulate(chain.offload(Tier::kHost),
                                      {.host_capacity = Bytes(3 * kBytes), .nvme_capacity = kGiB});
    CHECK(result.status == RunStatus::kOutOfHostMemory);
    CHECK(result.requested.count == kBytes);
    // Buffers come back: with NVMe behind it, three are enough for any number of layers.
    result = chain.simulate(chain.offload(Tier::kNvme),
                            {.host_capacity = Bytes(3 * kBytes), .nvme_capacity = kGiB});
    CHECK(result.status == RunStatus::kCompleted);
    CHECK(result.host.bytes.count <= 3 * kBytes);
    result = chain.simulate(chain.offload(Tier::kNvme),
                            {.host_capacity = kGiB, .nvme_capacity = Bytes(4 * kBytes)});
    CHECK(result.status == RunStatus::kOutOfNvme);
  }

  TEST_CASE("a throttle limits what is in flight, by stopping the host or the compute stream") {
    // Copies of 3000 ns behind layers of 1000 that are freed at the copy's event: unthrottled the
    // host runs ahead and all layers stay active.
    Chain chain{Duration(1000), Duration(1000)};
    chain.costs.copy_out.ns_per_byte_alone = 3;
    const auto plan_with = [&](std::optional<Throttle> throttle) {
      ResidencyPlan plan(chain.live);
      plan.begin_policy(0, "test");
      for (GapId id : ids_of(chain.live.gaps)) {
        const Gap& gap = chain.live.gaps[id];
        if (!gap.open() || chain.graph.storages[gap.storage].role != Role::kSavedActivation) {
          continue;
        }
        if (gap.from.value + 2 >= kLayers) continue;
        plan.decide(id, Offload{.fetch_at = gap.to, .release_at = {}});
      }
      if (throttle) plan.throttle(*throttle);
      return plan;
    };
    const RunResult free = chain.simulate(plan_with({}), kRoomy);
    const RunResult host =
        chain.simulate(plan_with(Throttle{Stream::kCopyOut, 1, Throttle::Waits::kHost}), kRoomy);
    const RunResult compute =
        chain.simulate(plan_with(Throttle{Stream::kCopyOut, 1, Throttle::Waits::kCompute}), kRoomy);
    CHECK(free.phase[0].count() == kLayers * 1000);
    CHECK(free.active.bytes.count >= (kLayers - 2) * kBytes);
    CHECK(host.active.bytes.count <= 4 * kBytes + 10);
    CHECK(exposed(host, Stream::kCopyOut) > 0);  // the host was blocked by copies
    // Copy i ends at 1000 + 3000 (i + 1). The forward after copy i waits for copy i - 2, so that of
    // layer 10 starts when copy 7 ends, at 25000; two layers follow without copies.
    CHECK(compute.phase[0].count() == 27000);
    CHECK(exposed(compute, Stream::kCopyOut) >= 27000 - kLayers * 1000);
    CHECK(compute.active.bytes <= free.active.bytes);
  }

  TEST_CASE("copies tax memory-bound kernels that run at the same time, and no others") {
    // Kernels of 2000 ns, copies of 1000 ns that take a tenth of HBM: while one runs, a kernel does
    // 1000 / 1.1 ns of its work, so it takes 90.9 ns longer, 91 in whole nanoseconds.
    Chain chain{Duration(2000), Duration(2000)};
    chain.costs.tax_copy_out = 0.1;
    for (const Operator& op : chain.graph.operators) {
      chain.costs.memory.push_back(op.work.fixed);
      chain.costs.slack.push_back(Duration(0));
    }
    const std::int64_t untaxed = 2 * kLayers * 2000;
    const ResidencyPlan plan = chain.offload(Tier::kHost);
    CHECK(chain.simulate(plan, kRoomy).step.count() == untaxed + (kLayers - 2) * 91);
    // Arithmetic covers traffic that is a fifth shorter, taxed or not.
    for (OperatorId op : ids_of(chain.costs.memory)) {
      chain.costs.memory[op] = Duration(1600);
      chain.costs.slack[op] = Duration(400);
    }
    CHECK(chain.simulate(plan, kRoomy).step.count() == untaxed);
    CHECK(chain.simulate(plan, kRoomy).exposed_transfer.count() == 0);
  }

  TEST_CASE("page-locked buffers are rounded to powers of two, kept, and reused by size") {
    const Chain chain{Duration(1000), Duration(1000)};
    const ResidencyPlan plan = chain.offload(Tier::kHost);
    RunOptions options = kRoomy;
    const RunResult exact = chain.simulate(plan, options);
    CHECK(exact.host.bytes.count == (kLayers - 2) * kBytes);
    CHECK(exact.host_taken.bytes == exact.host.bytes);
    options.page_locked = PageLockedMemory::kPowerOfTwo;
    const RunResult torch = chain.simulate(plan, options);
    CHECK(torch.host.bytes == exact.host.bytes);
    CHECK(torch.host_taken.bytes.count == (kLayers - 2) * 1024);  // 1000 -> 1024
    options.host_capacity = Bytes((kLayers - 2) * 1024 - 1);
    CHECK(chain.simulate(plan, options).status == RunStatus::kOutOfHostMemory);
  }

  TEST_CASE("ranks behind one host share its bandwidth") {
    DeviceProfile profile{};
    profile.hbm.bandwidth = {1e12};
    profile.links.host_to_device = {.alone = {50e9}, .duplex = {40e9}};
    profile.links.device_to_host = {.alone = {50e9}, .duplex = {40e9}};
    profile.host.dram_bandwidth = {200e9};
    profile.host.optimizer_bandwidth = {40e9};
    profile.host.gpus = 8;
    const TrainingGraph graph;
    const auto rate = [&](int ranks, double CostTable::Link::*figure) {
      return 1 / (price(graph, CostModel(profile), data_mesh(ranks, profile)).copy_in.*figure);
    };
    // One rank has the link to itself; 8 ranks have 25 GB/s each, 12.5 per direction; a second
    // host takes ranks 9 to 16, so that nothing gets worse.
    CHECK(rate(1, &CostTable::Link::ns_per_byte_alone) == doctest::Approx(50));
    CHECK(rate(1, &CostTable::Link::ns_per_byte_duplex) == doctest::Approx(40));
    CHECK(rate(4, &CostTable::Link::ns_per_byte_alone) == doctest::Approx(50));
    CHECK(rate(4, &CostTable::Link::ns_per_byte_duplex) == doctest::Approx(25));
    CHECK(rate(8, &CostTable::Link::ns_per_byte_alone) == doctest::Approx(25));
    CHECK(rate(8, &CostTable::Link::ns_per_byte_duplex) == doctest::Approx(12.5));
    CHECK(rate(16, &CostTable::Link::ns_per_byte_alone) == doctest::Approx(25));
  }

  TEST_CASE("an NVMe queue delivers no more than its requests in flight") {
    // 8 requests of 1 MiB every 100 us: 84 GB/s; of 64 KiB: 5.2 GB/s.
    NvmeProfile nvme{.latency = std::chrono::microseconds(100), .queue = 8, .request = kMiB};
    CHECK(nvme.reached({20e9}).value == doctest::Approx(20e9));
    nvme.request = kKiB * 64;
    CHECK(nvme.reached({20e9}).value == doctest::Approx(8 * 65536 / 100e-6));
  }
}

}  // namespace tidemark::transfer_test
