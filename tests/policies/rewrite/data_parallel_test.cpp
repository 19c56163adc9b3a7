// All-reduces beside backward, on a chain whose times are added up by hand.
#include "policies/rewrite/data_parallel.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/analysis/liveness.hpp"
#include "policies/rewrite/accumulate.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "sim/result/communication.hpp"
#include "tests/support/hand_made_graph.hpp"

namespace tidemark::data_parallel_test {
namespace {

constexpr int kLayers = 3;
constexpr std::int64_t kBytes = 1024;

RewriteContext on_ranks(int count) {
  return {.mesh = Mesh({count, 1, 1, 1, 1, 1}, 8, LinkKind::kNvlink)};
}

// Each layer reads the one before and has one parameter; backward makes the layers' gradients from
// the last to the first.
TrainingGraph chain() {
  TrainingGraph graph;
  const LayerId layer = graph.layers.push_back({.name = "h"});
  std::vector<StorageId> activations;
  const StorageId input = testing::add_storage(graph, "input", 8, Role::kInput, layer);
  graph.storages[input].initial = true;
  for (int i = 0; i < kLayers; ++i) {
    const std::string name = "w" + std::to_string(i);
    const StorageId weight = testing::add_storage(graph, name, kBytes, Role::kParameter, layer);
    graph.storages[weight].initial = graph.storages[weight].persistent = true;
    const StorageId gradient =
        testing::add_storage(graph, name + ".grad", kBytes, Role::kGradient, layer);
    graph.storages[gradient].persistent = true;
    graph.trained.push_back(graph.parameters.push_back(
        {.name = name, .elements = Elements(kBytes / 4), .storage = weight, .gradient = gradient}));
    graph.updates.push_back(whole_update(graph, graph.trained.back()));
    activations.push_back(
        testing::add_storage(graph, "a" + std::to_string(i), 8, Role::kTemporary, layer));
    const StorageId before = i == 0 ? input : activations[static_cast<std::size_t>(i) - 1];
    graph.part(PartKind::kForward)
        .push_back(testing::add_microsecond(graph, "forward", Phase::kForward, layer,
                                            {{before, Access::kRead},
                                             {weight, Access::kRead},
                                             {activations.back(), Access::kCreate}}));
  }
  for (std::size_t i = kLayers; i-- > 0;) {
    graph.part(PartKind::kBackward)
        .push_back(testing::add_microsecond(
            graph, "backward", Phase::kBackward, layer,
            {{activations[i], Access::kRead},
             {graph.parameters[graph.trained[i]].gradient, Access::kCreate}}));
  }
  const OperatorId zero = testing::add_microsecond(graph, "zero_grad", Phase::kForward, layer, {});
  graph.part(PartKind::kZeroGrad).push_back(zero);
  for (const Parameter& trained : graph.parameters) {
    graph.holds.push_back({trained.gradient, {}, zero, HoldKind::kLocal});
  }
  return graph;
}

// A rewrite of a later stage reads the `.grad` of data_parallel.
TrainingGraph with_optimizer(TrainingGraph graph) {
  for (const Parameter& trained : graph.parameters) {
    graph.part(PartKind::kOptimizer)
        .push_back(testing::add_microsecond(
            graph, "update", Phase::kOptimizer, LayerId(),
            {{trained.gradient, Access::kRead}, {trained.storage, Access::kMutate}}));
  }
  return graph;
}

// A bucket for each gradient.
DataParallelOptions small_buckets(bool view = false) {
  return {.limits = {.bucket = Bytes(kBytes), .first_bucket = Bytes(kBytes)},
          .gradient_as_bucket_view = view};
}

struct Played {
  StepProgram program;
  CostTable costs;
  Scratch scratch;
  RunResult run;
  std::vector<std::string> problems;
};

// Times by name, in nanoseconds; no dispatch.
Played play(TrainingGraph trained, int steps = 1) {
  const TrainingGraph graph = with_optimizer(std::move(trained));
  const std::map<std::string, std::int64_t> times{{"forward", 10},          {"backward", 100},
                                                  {"copy_into_bucket", 10}, {"all_reduce", 150},
                                                  {"copy_from_bucket", 10}, {"update", 5}};
  Played played;
  const ProgramOrder order = program_order(graph, steps);
  const Liveness live = analyze_liveness(graph, order);
  played.program = lower(graph, order, live, IdVector<GapId, Decision>(live.gaps.size()));
  played.problems = verify(graph, order, order, played.program);
  CostTable costs;
  for (const Operator& op : graph.operators) {
    const auto known = times.find(op.name);
    costs.device.push_back(Duration(known == times.end() ? 1 : known->second));
    costs.dispatch.push_back(Duration(0));
  }
  played.scratch.prepare(played.program, true);
  IdealAllocator allocator{kGiB};
  allocator.reserve(played.program.allocations.size());
  played.costs = costs;
  played.run = run(played.program, costs, allocator, played.scratch,
                   {.host_capacity = kGiB, .record_events = true});
  return played;
}

std::size_t count_of(const TrainingGraph& graph, const std::vector<OperatorId>& part,
                     std::string_view name) {
  return static_cast<std::size_t>(std::count_if(
      part.begin(), part.end(), [&](OperatorId id) { return graph.operators[id].name == name; }));
}

std::int64_t bytes_of(const TrainingGraph& graph, Role role) {
  std::int64_t sum = 0;
  for (const Storage& storage : graph.storages)
    sum += storage.role == role ? storage.bytes.count : 0;
  return sum;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("one data rank leaves the graph as it is") {
    TrainingGraph graph = chain();
    const std::size_t operators = graph.operators.size();
    const std::size_t storages = graph.storages.size();
    DataParallel(small_buckets()).apply(graph, on_ranks(1));
    CHECK(graph.operators.size() == operators);
    CHECK(graph.storages.size() == storages);
  }

  TEST_CASE("all-reduces overlap with backward; what sticks out is exposed") {
    // compute  f f f [b2 30-130][in -140][b1 -240][in -250][b0 -350][in -360]
    // data                      [r2 140-290]      [r1 290-440]       [r0 440-590]
    // compute  [out2 360-370] waits 70 [out1 440-450] waits 140 [out0 590-600] three updates
    TrainingGraph graph = chain();
    DataParallel(small_buckets()).apply(graph, on_ranks(2));
    const Played played = play(graph, 2);
    CHECK(played.problems.empty());
    CHECK(played.run.step == Duration(615));
    CHECK(played.run.exposed_communication == Duration(70 + 140));
    CHECK(played.run.phase[static_cast<std::size_t>(Phase::kBackward)] == Duration(570));
    CHECK(played.run.busy[static_cast<std::size_t>(Stream::kDataGroup)] == Duration(450));
    const auto used =
        communication_of(graph, played.program, played.costs, played.scratch, played.run);
    REQUIRE(used.size() == 1);
    CHECK(used[0].group == MeshDimension::kData);
    CHECK(used[0].kind == CollectiveKind::kAllReduce);
    CHECK(used[0].count == kLayers);
    CHECK(used[0].bytes.count == kLayers * kBytes);
    CHECK(used[0].busy == Duration(450));
    CHECK(used[0].exposed == Duration(210));
  }

  TEST_CASE("the first iteration reduces one bucket, behind backward") {
    // compute  f f f [b2 30-130][in -140][b1 -240][in -250][b0 -350][in -360]
    // data                                                                   [r 360-510]
    // compute  waits 150 [out2 510-520][out1 -530][out0 -540] three updates
    TrainingGraph graph = chain();
    DataParallel(small_buckets()).apply(graph, on_ranks(2));
    const Played played = play(graph);
    CHECK(played.problems.empty());
    CHECK(played.run.step == Duration(555));
    CHECK(played.run.exposed_communication == Duration(150));
    const auto used =
        communication_of(graph, played.program, played.costs, played.scratch, played.run);
    REQUIRE(used.size() == 1);
    CHECK(used[0].count == 1);
    CHECK(used[0].bytes.count == kLayers * kBytes);
    DataParallelOptions learned;
    learned.rebuilds = false;
    TrainingGraph other = chain();
    DataParallel(learned).apply(other, on_ranks(2));
    CHECK(other.part(PartKind::kBackwardReduceFirst).empty());
  }

  TEST_CASE("buckets hold as much as the gradients, for the whole run") {
    TrainingGraph graph = chain();
    const std::int64_t plain = play(graph).run.live.bytes.count;
    DataParallel(small_buckets()).apply(graph, on_ranks(2));
    CHECK(bytes_of(graph, Role::kGradientBucket) == bytes_of(graph, Role::kGradient));
    CHECK(play(graph, 2).run.live.bytes.count == plain + kLayers * kBytes);
  }

  TEST_CASE("one bucket is reduced after the last gradient, and nothing overlaps") {
    TrainingGraph graph = chain();
    DataParallel().apply(graph, on_ranks(2));
    const Played played = play(graph);
    CHECK(played.problems.empty());
    // 30 + 3 (100 + 10), then 150 exposed, 3 copies of 10 and 3 updates of 5.
    CHECK(played.run.step == Duration(360 + 150 + 30 + 15));
    CHECK(played.run.exposed_communication == Duration(150));
  }

  TEST_CASE(
      "gradients that are views of their buckets are not copied back and take no more memory") {
    TrainingGraph graph = chain();
    const std::int64_t plain = play(graph, 2).run.live.bytes.count;
    DataParallel(small_buckets(true)).apply(graph, on_ranks(2));
    check_invariants(graph);
    CHECK(count_of(graph, graph.part(PartKind::kBackward), "copy_into_bucket") == kLayers);
    CHECK(count_of(graph, graph.part(PartKind::kBackward), "copy_from_bucket") == 0);
    CHECK(bytes_of(graph, Role::kGradient) == 0);
    CHECK(bytes_of(graph, Role::kGradientBucket) == kLayers * kBytes);
    const Played played = play(graph, 2);
    CHECK(played.problems.empty());
    // The buckets are there from the start; beside them one fresh gradient at a time.
    // Its peak is in the first backward, when two more activations are there.
    CHECK(played.run.live.bytes.count == plain + kBytes + 16);
  }

  TEST_CASE("gradients that are kept and zeroed are divided in place where they are views") {
    TrainingGraph graph = chain();
    Accumulate(1, ZeroGrad::kZero).apply(graph, {});
    DataParallel(small_buckets(true)).apply(graph, on_ranks(2));
    check_invariants(graph);
    CHECK(count_of(graph, graph.part(PartKind::kBackward), "divide_gradient") == kLayers);
    CHECK(count_of(graph, graph.part(PartKind::kBackwardAccumulate), "divide_gradient") == kLayers);
    CHECK(play(graph, 2).problems.empty());
  }

  TEST_CASE("of several micro-batches only the last one communicates") {
    for (const bool view : {false, true}) {
      TrainingGraph graph = chain();
      Accumulate(3, ZeroGrad::kNone).apply(graph, {});
      DataParallel(small_buckets(view)).apply(graph, on_ranks(4));
      check_invariants(graph);
      CHECK(count_of(graph, graph.part(PartKind::kBackward), "all_reduce") == 0);
      CHECK(count_of(graph, graph.part(PartKind::kBackwardAccumulate), "all_reduce") == 0);
      CHECK(count_of(graph, graph.part(PartKind::kBackwardReduce), "all_reduce") == kLayers);
      const Played played = play(graph, 2);
      CHECK(played.problems.empty());
      const auto used =
          communication_of(graph, played.program, played.costs, played.scratch, played.run);
      REQUIRE(used.size() == 1);
      CHECK(used[0].count == kLayers);
    }
  }
}

}  // namespace tidemark::data_parallel_test
