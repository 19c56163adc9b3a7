// Plans of checkpoint placement laid out over training graphs.
#include "policies/sequence/planned.hpp"

#include <map>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "policies/plan_policies.hpp"
#include "policies/solver/step_costs.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/verify.hpp"
#include "tests/policies/remat/remat_cases.hpp"
#include "tests/support/live_bytes.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/random_training_graph.hpp"

namespace tidemark::planned_test {

using tidemark::test::pick;
using tidemark::test::Rng;

namespace {

IdVector<OperatorId, Duration> fixed_durations(const TrainingGraph& graph) {
  IdVector<OperatorId, Duration> durations;
  for (const Operator& op : graph.operators)
    durations.push_back(op.work.fixed);
  return durations;
}

// Appends an operator that takes 5 ns to its phase.
void add_operator(TrainingGraph& graph, const char* name, Phase phase,
                  const std::vector<Touch>& touches) {
  Operator op;
  op.name = name;
  op.phase = phase;
  op.work.op_class = OperatorClass::kFixed;
  op.work.fixed = Duration(5);
  const OperatorId id = graph.add_operator(std::move(op), touches);
  (phase == Phase::kForward ? graph.part(PartKind::kForward) : graph.part(PartKind::kBackward))
      .push_back(id);
}

struct LaidOut {
  ProgramOrder order;
  PolicyOutcome outcome;
  std::vector<std::string> problems;
  std::int64_t peak = 0;  // peak of the live bytes in forward and backward
};

LaidOut lay_out(const TrainingGraph& graph, const PolicyEntry& entry, const std::string& parameters,
                int steps) {
  const Value document = parse_document(parameters, "test.yaml");
  const AnyPolicy policy = entry.decode(Decoder(document), {});
  const ProgramOrder plain = program_order(graph, steps);
  const Liveness live = analyze_liveness(graph, plain);
  const DeviceProfile device{};
  const IdVector<OperatorId, Duration> durations = fixed_durations(graph);
  LaidOut result;
  result.order = std::get<std::unique_ptr<SequencePolicy>>(policy)->order(
      {graph, plain, live, durations, device}, result.outcome);
  const Liveness after = analyze_liveness(graph, result.order);
  const ResidencyPlan nothing(after);
  result.problems =
      verify(graph, plain, result.order, lower(graph, result.order, after, nothing.decisions()));
  const test::LiveBytes bytes = test::live_bytes(graph, result.order);
  for (const Position p : ids_of(result.order.at)) {
    const bool plans = graph.operators[result.order.at[p].op].phase != Phase::kOptimizer;
    if (plans) result.peak = std::max(result.peak, bytes.during[p.index()]);
  }
  return result;
}

RematProblem problem_of(const TrainingGraph& graph) {
  return remat_problem(
      step_costs(graph, micro_batch_of(graph), fixed_durations(graph), false).graph);
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("every policy's plan of a random training graph changes no result and says its peak") {
    Rng rng(31);
    std::map<std::string_view, int> laid;
    int repeats = 0;
    const int rounds = test::runs_long_tests() ? 120 : 40;
    for (int round = 0; round < rounds; ++round) {
      CAPTURE(round);
      const TrainingGraph graph =
          test::random_training_graph(rng, {.blocks = pick(rng, 1, 6),
                                            .operators_per_block = pick(rng, 1, 5),
                                            .in_place = pick(rng, 0, 1) == 0});
      const RematProblem problem = problem_of(graph);
      const std::int64_t low = problem.footprint(problem.largest_footprint());
      const std::int64_t high = tidemark::testing::peak_without_repeats(problem);
      const std::int64_t budget = low + (high - low) * pick(rng, 0, 4) / 4;
      constexpr const char* kClasses[] = {"fixed", "checkmate", "unrestricted"};
      const std::string schedule_class = kClasses[pick(rng, 0, 2)];
      for (const PolicyEntry& entry : planned_entries()) {
        if (entry.name == "checkmate_lp" && round % 8 != 0) continue;  // takes long
        CAPTURE(entry.name);
        LaidOut plan;
        try {
          const SearchKeys& takes = find_plan_policy(entry.name)->search;
          plan = lay_out(graph, entry,
                         "{budget: " + std::to_string(budget) + ", class: " + schedule_class +
                             (takes.iterations ? ", iterations: 100" : "") +
                             (takes.time_limit ? ", time_limit: 500ms" : "") + "}",
                         pick(rng, 1, 2));
        } catch (const UserError&) {
          CHECK((entry.name == "rotor" || entry.name == "rockmate"));
          continue;
        }
        REQUIRE_MESSAGE(plan.problems.empty(),
                        (plan.problems.empty() ? std::string() : plan.problems.front()));
        REQUIRE(plan.outcome.plan);
        const PlanFigures& figures = *plan.outcome.plan;
        // The results of an operator count together where the least of them goes early.
        CHECK(plan.peak <= figures.peak.count);
        if (figures.peak.count <= budget) CHECK(figures.infeasible.empty());
        if (figures.infeasible.empty()) CHECK(plan.peak <= budget);
        if (figures.lower_bound && figures.infeasible.empty()) {
          CHECK(*figures.lower_bound <= figures.cost);
        }
        ++laid[entry.name];
        for (const Occurrence& occurrence : plan.order.at)
          repeats += occurrence.recompute ? 1 : 0;
      }
    }
    CHECK(laid.size() == 8);
    CHECK(repeats > 8 * rounds);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("a cost graph's plan has the peak and the cost of its program") {
    for (const std::string& name : tidemark::testing::recorded_names()) {
      CAPTURE(name);
      const CostGraph costs =
          read_cost_graph((tidemark::testing::recorded_cases() / (name + ".json")).string());
      const TrainingGraph graph = training_graph(costs);
      const RematProblem problem = problem_of(graph);
      REQUIRE(problem.deps == remat_problem(costs).deps);
      REQUIRE(problem.fixed == remat_problem(costs).fixed);
      const std::int64_t budget = (problem.footprint(problem.largest_footprint()) +
                                   tidemark::testing::peak_without_repeats(problem)) /
                                  2;
      for (const PolicyEntry& entry : planned_entries()) {
        if (entry.name != "optimal" && entry.name != "chen_sqrt") continue;
        const LaidOut plan = lay_out(graph, entry, "{budget: " + std::to_string(budget) + "}", 1);
        CHECK(plan.problems.empty());
        CHECK(plan.peak == plan.outcome.plan->peak.count);
        std::int64_t cost = 0;
        for (const Occurrence& occurrence : plan.order.at)
          cost += graph.operators[occurrence.op].work.fixed.count();
        CHECK(cost == plan.outcome.plan->cost.count());
      }
    }
  }

  // dropout makes its result (20) and a mask (10); only the mask is read in backward.
  TEST_CASE("what outlives the other results of an operator is a node of its own") {
    TrainingGraph graph;
    graph.name = "dropout";
    const auto storage = [&](const char* name, std::int64_t bytes, bool stays = false) {
      return graph.storages.push_back(
          {.bytes = Bytes(bytes), .initial = stays, .persistent = stays, .name = name});
    };
    const StorageId x = storage("x", 7, true);
    const StorageId skip = storage("skip", 20);
    const StorageId result = storage("result", 20);
    const StorageId mask = storage("mask", 10);
    const StorageId sum = storage("sum", 20);
    const StorageId gradient = storage("gradient", 20);
    const auto add = [&](const char* name, Phase phase, const std::vector<Touch>& touches) {
      add_operator(graph, name, phase, touches);
    };
    add("linear", Phase::kForward, {{x, Access::kRead}, {skip, Access::kCreate}});
    add("dropout", Phase::kForward,
        {{x, Access::kRead}, {result, Access::kCreate}, {mask, Access::kCreate}});
    add("add", Phase::kForward,
        {{skip, Access::kRead}, {result, Access::kRead}, {sum, Access::kCreate}});
    add("loss", Phase::kForward, {{sum, Access::kMutate}});
    add("backward", Phase::kBackward,
        {{sum, Access::kRead}, {mask, Access::kRead}, {gradient, Access::kCreate}});
    const CostGraph costs =
        step_costs(graph, micro_batch_of(graph), fixed_durations(graph), false).graph;
    // linear (20), dropout (30), add + loss (20), the mask (10), backward (20)
    REQUIRE(costs.nodes.size() == 5);
    const CostNode& rest = costs.nodes[CostNodeId(3U)];
    CHECK(rest.bytes == Bytes(10));
    CHECK(rest.part);
    CHECK(rest.cost == 0);
    CHECK(rest.deps == std::vector{CostNodeId(1U)});
    CHECK(remat_problem(costs).deps[4] == std::vector<NodeIndex>{2, 3});
    // Peak 7 + 20 + 30 + 20 while add runs, all of it live there. It is 7 + 30 + 20 when the mask
    // parts from the rest, 7 + 10 + 20 + 20 in backward.
    CHECK(remat_problem(costs).footprint(3) == 7 + 30);
    CHECK(tidemark::testing::peak_without_repeats(remat_problem(costs)) == 77);
  }

  // conv -> batch norm -> relu_ -> (loss), as in a residual network
  TEST_CASE("an operator in place is recomputed with its storage's maker, a statistic runs once") {
    TrainingGraph graph;
    graph.name = "in place";
    const auto storage = [&](const char* name, std::int64_t bytes, bool stays) {
      return graph.storages.push_back({.bytes = Bytes(bytes),
                                       .role = stays ? Role::kBuffer : Role::kTemporary,
                                       .initial = stays,
                                       .persistent = stays,
                                       .name = name});
    };
    const StorageId x = storage("x", 10, true);
    const StorageId running = storage("running_mean", 1, true);
    const StorageId conv = storage("conv", 100, false);
    const StorageId norm = storage("norm", 100, false);
    const StorageId mean = storage("mean", 1, false);
    const StorageId gradient = storage("gradient", 100, false);
    const auto add = [&](const char* name, Phase phase, const std::vector<Touch>& touches) {
      add_operator(graph, name, phase, touches);
    };
    add("conv", Phase::kForward, {{x, Access::kRead}, {conv, Access::kCreate}});
    add("norm", Phase::kForward,
        {{conv, Access::kRead}, {norm, Access::kCreate}, {mean, Access::kCreate}});
    add("update", Phase::kForward, {{mean, Access::kRead}, {running, Access::kMutate}});
    add("relu_", Phase::kForward, {{norm, Access::kMutate}});
    add("backward", Phase::kBackward,
        {{norm, Access::kRead}, {conv, Access::kRead}, {gradient, Access::kCreate}});
    const StepCosts costs = step_costs(graph, micro_batch_of(graph), fixed_durations(graph), false);
    REQUIRE(costs.graph.nodes.size() == 4);  // conv, norm + relu_, update, backward
    const auto operators = [&](std::uint32_t node) { return costs.operators[CostNodeId(node)]; };
    CHECK(operators(1) ==
          std::vector{graph.part(PartKind::kForward)[1], graph.part(PartKind::kForward)[3]});
    CHECK(costs.graph.nodes[CostNodeId(1U)].cost == 10);
    CHECK(costs.graph.nodes[CostNodeId(1U)].bytes == Bytes(101));
    CHECK(!costs.graph.nodes[CostNodeId(1U)].once);
    CHECK(operators(2) == std::vector{graph.part(PartKind::kForward)[2]});
    CHECK(costs.graph.nodes[CostNodeId(2U)].once);
    CHECK(costs.graph.fixed_bytes == Bytes(11));
  }
}

}  // namespace tidemark::planned_test
