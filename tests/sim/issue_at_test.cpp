// A gather that is recomputed runs on the queue of its group; where it is issued decides how much
// of it compute waits for.
#include <doctest/doctest.h>

#include "graph/analysis/liveness.hpp"
#include "policies/plan/residency_plan.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "tests/support/hand_made_graph.hpp"

namespace tidemark::issue_at_test {
namespace {

// gather, use 0, use 1, use 2, use 3, use again: the gathered copy is read first and last.
struct Gathered {
  TrainingGraph graph;
  StorageId copy;

  Gathered() {
    const LayerId layer = graph.layers.push_back({.name = "h"});
    const auto storage = [&](const char* name, Role role) {
      return testing::add_storage(graph, name, 1024, role, layer);
    };
    const StorageId shard = storage("shard", Role::kParameter);
    graph.storages[shard].initial = true;
    copy = storage("gathered", Role::kTemporary);
    Operator gather{.name = "gather"};
    gather.work = {.op_class = OperatorClass::kCollective,
                   .collective = {.kind = CollectiveKind::kAllGather,
                                  .group = MeshDimension::kShard,
                                  .bytes = Bytes(1024)}};
    graph.part(PartKind::kForward)
        .push_back(graph.add_operator(
            std::move(gather),
            std::vector<Touch>{{shard, Access::kRead}, {copy, Access::kCreate}}));
    StorageId before = copy;
    for (int i = 0; i < 4; ++i) {
      const StorageId next = storage("a", Role::kTemporary);
      graph.part(PartKind::kForward)
          .push_back(testing::add_microsecond(graph, "use", Phase::kForward, layer,
                                              {{before, Access::kRead}, {next, Access::kCreate}}));
      before = next;
    }
    graph.part(PartKind::kForward)
        .push_back(testing::add_microsecond(graph, "use again", Phase::kForward, layer,
                                            {{copy, Access::kRead}, {before, Access::kMutate}}));
  }
};

struct Outcome {
  ProgramOrder order;
  RunResult run;
  std::vector<std::string> problems;
};

// `dispatch`: nanoseconds of the host for each operator.
Outcome outcome_with(Position issue_at, int dispatch = 100) {
  const Gathered gathered;
  const TrainingGraph& graph = gathered.graph;
  const ProgramOrder plain = program_order(graph, 1);
  const Liveness live = analyze_liveness(graph, plain);
  ResidencyPlan plan(live);
  plan.begin_policy(0, "test");
  const GroupId group = plan.add_group({.recipe = {Position(std::uint32_t{0})}});
  for (GapId gap : ids_of(live.gaps)) {
    const Gap& g = live.gaps[gap];
    if (g.storage != gathered.copy || g.from.value != 1) continue;
    REQUIRE(plan.decide(gap, Recompute{.group = group, .issue_at = issue_at}));
  }
  Outcome outcome;
  outcome.order = insert_recomputation(graph, plain, live, plan);
  const Liveness again = analyze_liveness(graph, outcome.order);
  const StepProgram program =
      lower(graph, outcome.order, again, IdVector<GapId, Decision>(again.gaps.size()));
  outcome.problems = verify(graph, plain, outcome.order, program);
  CostTable costs;
  for (const Operator& op : graph.operators) {
    const bool gathers = op.work.op_class == OperatorClass::kCollective;
    costs.device.push_back(Duration(gathers ? 150 : 100));
    costs.dispatch.push_back(Duration(dispatch));
  }
  Scratch scratch;
  scratch.prepare(program, false);
  IdealAllocator allocator{kGiB};
  allocator.reserve(program.allocations.size());
  outcome.run = run(program, costs, allocator, scratch, {.host_capacity = kGiB});
  return outcome;
}

std::uint32_t second_gather(const ProgramOrder& order) {
  for (std::uint32_t p = 1; p < order.at.size(); ++p) {
    if (order.at[Position(p)].op.value == 0) return p;
  }
  return 0;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("without a place of its own a recomputed gather is issued before its reader") {
    // The first gather runs from 100 to 250, compute waits from 200 on. The host issues the second
    // at 600 and its reader at 700; the gather's memory comes from the pool of its own stream, so
    // it runs beside compute, from 600 to 750.
    const Outcome late = outcome_with({});
    CHECK(late.problems.empty());
    CHECK(second_gather(late.order) == 5);
    CHECK(late.run.exposed_communication == Duration(50 + 50));
    CHECK(late.run.step == Duration(750 + 100));
    // A host that runs ahead hides it: the gather is issued while compute has all of its work left.
    const Outcome ahead = outcome_with({}, 0);
    CHECK(ahead.run.exposed_communication == Duration(150));
    CHECK(ahead.run.step == Duration(150 + 400 + 100));
  }

  TEST_CASE("issued two operators earlier it hides behind them") {
    const Outcome early = outcome_with(Position(std::uint32_t{3}));
    CHECK(early.problems.empty());
    CHECK(second_gather(early.order) == 3);
    CHECK(early.run.exposed_communication == Duration(50));  // the first gather
    CHECK(early.run.step == Duration(700 + 100));
  }

  TEST_CASE("a place before the old copy can go, or behind the reader, is moved into the gap") {
    CHECK(second_gather(outcome_with(Position(std::uint32_t{0})).order) == 2);
    CHECK(second_gather(outcome_with(Position(std::uint32_t{5})).order) == 5);
  }
}

}  // namespace tidemark::issue_at_test
