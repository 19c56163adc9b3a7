// An operator that recomputes in the place of another makes the same contents from what the step
// has kept of them: a gather from the halves that two ranks hold of what four have sent.
#include <doctest/doctest.h>

#include "graph/analysis/liveness.hpp"
#include "graph/core/errors.hpp"
#include "policies/plan/residency_plan.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "tests/support/hand_made_graph.hpp"

namespace tidemark::stand_in_test {
namespace {

// gather, use, keep half, [keep half again], use, use again: what was gathered is read first and
// last, half of it between.
struct Gathered {
  TrainingGraph graph;
  StorageId copy;
  StorageId half;
  OperatorId stand_in;

  explicit Gathered(bool keeps_twice = false) {
    const LayerId layer = graph.layers.push_back({.name = "h"});
    const auto storage = [&](const char* name, std::int64_t bytes, Role role) {
      return testing::add_storage(graph, name, bytes, role, layer);
    };
    const StorageId shard = storage("shard", 256, Role::kParameter);
    graph.storages[shard].initial = true;
    copy = storage("gathered", 1024, Role::kGatheredParameter);
    half = storage("half", 512, Role::kGatheredParameter);
    const StorageId input = storage("input", 512, Role::kCommunication);
    const StorageId result = storage("result", 64, Role::kTemporary);
    const auto gather = [&](const std::vector<Touch>& touches) {
      Operator op{.name = "gather"};
      op.work = {.op_class = OperatorClass::kCollective,
                 .collective = {.kind = CollectiveKind::kAllGather,
                                .group = MeshDimension::kShard,
                                .bytes = Bytes(1024)}};
      return graph.add_operator(std::move(op), touches);
    };
    const auto run = [&](OperatorId op) { graph.part(PartKind::kForward).push_back(op); };
    const auto work = [&](const char* name, const std::vector<Touch>& touches) {
      run(testing::add_microsecond(graph, name, Phase::kForward, layer, touches));
    };
    const OperatorId first = gather({{shard, Access::kRead}, {copy, Access::kCreate}});
    stand_in = gather({{half, Access::kRead}, {input, Access::kCreate}, {copy, Access::kCreate}});
    graph.operators[first].recomputed_by = stand_in;
    run(first);
    work("use", {{copy, Access::kRead}, {result, Access::kCreate}});
    work("keep half", {{copy, Access::kRead}, {half, Access::kCreate}});
    if (keeps_twice) work("keep half", {{copy, Access::kRead}, {half, Access::kCreate}});
    work("use", {{result, Access::kMutate}});
    work("use again", {{copy, Access::kRead}, {half, Access::kRead}, {result, Access::kMutate}});
  }
};

struct Planned {
  ProgramOrder plain;
  ProgramOrder order;
  std::int64_t refused = 0;
};

// Drops what was gathered between the last of its readers in the middle and the one at the end.
Planned planned(const Gathered& gathered, int steps) {
  Planned result{.plain = program_order(gathered.graph, steps), .order = {}};
  const Liveness live = analyze_liveness(gathered.graph, result.plain);
  ResidencyPlan plan(live);
  plan.outcomes().resize(1);
  plan.begin_policy(0, "test");
  const auto per_step =
      static_cast<std::uint32_t>(result.plain.at.size()) / static_cast<std::uint32_t>(steps);
  for (const GapId id : ids_of(live.gaps)) {
    const Gap& gap = live.gaps[id];
    const bool last = gap.to.valid() && gap.to.value % per_step == per_step - 1;
    if (gap.storage != gathered.copy || !last || gap.dead) continue;
    const Position maker(gap.to.value / per_step * per_step);
    REQUIRE(plan.decide(id, Recompute{.group = plan.add_group({.recipe = {maker}})}));
  }
  result.order = insert_recomputation(gathered.graph, result.plain, live, plan);
  result.refused = plan.outcome().refused;
  return result;
}

std::vector<std::string> problems_of(const Gathered& gathered, const Planned& p) {
  const Liveness live = analyze_liveness(gathered.graph, p.order);
  const StepProgram program =
      lower(gathered.graph, p.order, live, IdVector<GapId, Decision>(live.gaps.size()));
  return verify(gathered.graph, p.plain, p.order, program);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a recomputation runs what stands in for the operator, and verifies") {
    const Gathered gathered;
    check_invariants(gathered.graph);
    const Planned p = planned(gathered, 2);
    CHECK(p.refused == 0);
    REQUIRE(p.order.at.size() == 12);
    for (const std::uint32_t step : {0U, 1U}) {
      const Occurrence& again = p.order.at[Position(step * 6 + 4)];
      CHECK(again.op == gathered.stand_in);
      CHECK(again.recompute);
      CHECK(again.scratch == 0);
    }
    CHECK(problems_of(gathered, p).empty());
  }

  TEST_CASE("verify finds one that reads what another step has kept") {
    const Gathered gathered;
    Planned p = planned(gathered, 2);
    p.order.at[Position(std::uint32_t{10})].step = 0;
    const std::vector<std::string> problems = problems_of(gathered, p);
    REQUIRE_FALSE(problems.empty());
    CHECK(problems.front().find("other content") != std::string::npos);
  }

  TEST_CASE("it is refused where what it reads is not made once behind the operator") {
    const Gathered gathered(true);
    const Planned p = planned(gathered, 1);
    CHECK(p.refused == 1);
    CHECK(p.order.at.size() == p.plain.at.size());
  }

  TEST_CASE("what stands in makes something of the other, and no part runs it") {
    Gathered scheduled;
    scheduled.graph.part(PartKind::kForward).push_back(scheduled.stand_in);
    CHECK_THROWS_AS(check_invariants(scheduled.graph), InternalError);
    Gathered useless;
    useless.graph.operators[OperatorId(std::uint32_t{0})].recomputed_by =
        useless.graph.part(PartKind::kForward)[1];
    CHECK_THROWS_AS(check_invariants(useless.graph), InternalError);
  }
}

}  // namespace tidemark::stand_in_test
