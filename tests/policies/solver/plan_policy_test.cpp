// Published policies against their closed forms and against recorded figures.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "graph/core/errors.hpp"
#include "policies/plan_policies.hpp"
#include "policies/remat/keep_set.hpp"
#include "policies/remat/parts.hpp"
#include "policies/solver/chain.hpp"
#include "policies/solver/checkmate_lp.hpp"
#include "policies/solver/checkmate_relaxation.hpp"
#include "policies/solver/exact_search.hpp"
#include "policies/solver/lower_bound.hpp"
#include "policies/solver/min_cut.hpp"
#include "policies/solver/optimal.hpp"
#include "policies/solver/plan_grid.hpp"
#include "tests/policies/remat/remat_cases.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::plan_policy_test {

using namespace tidemark::testing;

namespace {

// n equal forward nodes (the last is the loss) and their backward nodes, all of cost and bytes 1.
RematProblem unit_chain(NodeIndex n) {
  CostGraph graph;
  graph.name = "unit chain";
  const auto add = [&](Phase kind, std::vector<CostNodeId> deps) {
    graph.nodes.push_back(
        {.name = "n", .kind = kind, .cost = 1, .bytes = Bytes(1), .deps = std::move(deps)});
  };
  for (NodeIndex v = 0; v < n; ++v)
    add(Phase::kForward, v == 0 ? std::vector<CostNodeId>{} : std::vector{CostNodeId(v - 1)});
  for (NodeIndex v = n; v-- > 0;) {
    std::vector<CostNodeId> deps;
    if (v > 0) deps.push_back(CostNodeId(v - 1));
    if (v + 1 < n) deps.push_back(CostNodeId(2 * n - 2 - v));
    add(Phase::kBackward, deps);
  }
  return remat_problem(graph);
}

std::int64_t binomial(std::int64_t n, std::int64_t k) {
  std::int64_t result = 1;
  for (std::int64_t i = 1; i <= k; ++i)
    result = result * (n - k + i) / i;
  return result;
}

PlanResult plan_with(std::string_view policy, const RematProblem& problem, std::int64_t budget) {
  const PlanPolicy* entry = find_plan_policy(policy);
  REQUIRE(entry != nullptr);
  return entry->decode(Decoder())(problem, {.budget = Bytes(budget)});
}

}  // namespace

TEST_SUITE("paper") {
  TEST_CASE("revolve repeats as many forwards as Griewank and Walther's closed form says") {
    for (const NodeIndex n : {2U, 5U, 10U, 20U, 35U}) {
      const RematProblem problem = unit_chain(n);
      for (int kept = 1; kept < static_cast<int>(n); ++kept) {
        const std::int64_t c = kept + 1;
        std::int64_t r = 0;
        while (binomial(c + r, c) < n)
          ++r;
        // Every step's own forward run is one of the l; it stands beside its backward.
        const std::int64_t repeats = r * n - (r == 0 ? 0 : binomial(c + r, c + 1));
        CHECK(evaluate(problem, revolve_schedule(problem, kept)).cost - problem.base_cost ==
              repeats);
      }
    }
  }

  TEST_CASE("Chen's sqrt policy repeats each forward at most once in about 2 sqrt(n) of memory") {
    const NodeIndex n = 101;  // 100 layers and the loss
    const RematProblem problem = unit_chain(n);
    std::vector<bool> keep(problem.size());
    const std::vector<NodeIndex> kept = chen_sqrt_checkpoints(forward_nodes(problem));
    CHECK(kept.size() == 10);
    for (const NodeIndex node : kept)
      keep[node] = true;
    const Evaluation result = evaluate(problem, keep_schedule(problem, keep));
    CHECK(result.cost <= problem.base_cost + n);
    // 10 checkpoints, a segment of 9 between two, a gradient, the node's own gradient, and the
    // input of the segment.
    CHECK(result.peak <= 10 + 9 + 3);
    // The peak with n = k^2 layers is when the last segment is recomputed: the k - 1 checkpoints
    // before it, its k - 1 other values and two gradients, for n - k forwards.
    for (const NodeIndex k : {3U, 4U, 5U, 7U, 12U, 20U}) {
      const RematProblem chain = unit_chain(k * k + 1);
      const std::vector<NodeIndex> every_kth = chen_sqrt_checkpoints(forward_nodes(chain));
      REQUIRE(every_kth.size() == k);
      std::vector<bool> kept_here(chain.size());
      for (const NodeIndex node : every_kth)
        kept_here[node] = true;
      const Evaluation figures = evaluate(chain, keep_schedule(chain, kept_here));
      CHECK(figures.cost == chain.base_cost + k * k - k);
      CHECK(figures.peak == 2 * k);
    }
    CHECK(peak_without_repeats(problem) >= 100);
  }

  TEST_CASE("checkpoint_every repeats every node but the kept ones once") {
    const RematProblem problem = unit_chain(12);
    // Segments 0-2, 3-5, 6-8, 9-11; nodes 2, 5, 8, 11 stay and the other eight are recomputed.
    const Evaluation result =
        evaluate(problem, segment_schedule(problem, every(forward_nodes(problem), 3)));
    CHECK(result.cost - problem.base_cost == 8);
    CHECK(evaluate(problem, segment_schedule(problem, forward_nodes(problem))).cost ==
          problem.base_cost);
  }
}

TEST_SUITE("unit") {
  // Two blocks of bmm, softmax, linear; the loss; their backward nodes.
  CostGraph attention_graph() {
    CostGraph graph;
    graph.name = "attention";
    const char* kOperators[] = {"bmm", "softmax", "linear"};
    for (std::uint32_t v = 0; v < 7; ++v) {
      const char* const kind = v < 6 ? kOperators[v % 3] : "loss";
      graph.nodes.push_back(
          {.name = kind,
           .layer = v < 3   ? "h.0.attn"
                    : v < 6 ? "h.1.attn"
                            : "",
           .operator_kind = kind,
           .cost = 10 + v,
           .bytes = Bytes(4),
           .deps = v == 0 ? std::vector<CostNodeId>{} : std::vector{CostNodeId(v - 1)},
           .block = v < 6 ? static_cast<int>(v / 3) : kNoBlock});
    }
    for (std::uint32_t v = 7; v-- > 0;) {
      std::vector<CostNodeId> deps;
      if (v > 0) deps.push_back(CostNodeId(v - 1));
      if (v < 6) deps.push_back(CostNodeId(12 - v));
      graph.nodes.push_back(
          {.name = "b", .kind = Phase::kBackward, .cost = 1, .bytes = Bytes(1), .deps = deps});
    }
    return graph;
  }

  TEST_CASE("selective recomputation by kinds of operators, the last of a block excepted") {
    const RematProblem problem = remat_problem(attention_graph());
    const auto extra = [&](std::string_view policy, const std::string& parameters) {
      const Value value = parse_document(parameters, "test");
      const PlanResult plan =
          find_plan_policy(policy)->decode(Decoder(value))(problem, {.budget = Bytes(1000)});
      REQUIRE(plan.solution);
      return plan.solution->evaluation.cost - problem.base_cost;
    };
    CHECK(extra("selective", "{recompute: [softmax]}") == 11 + 14);
    CHECK(extra("selective", "{save: [bmm]}") == 11 + 14);  // linear is the block's last
    CHECK(extra("selective", "{save: [softmax]}") == 10 + 13);
    CHECK(extra("selective", "{save: [bmm, softmax, linear]}") == 0);
    CHECK(extra("megatron_selective", "{}") == 10 + 13);  // from the first product to the last
    // Over layers, each block but its output is recomputed.
    CHECK(extra("checkpoint_every", "{over: layers}") == 10 + 11 + 13 + 14);
    // Over articulation points (all but the loss): 1, 3, 5 stay, and 6, the loss, is read by none.
    CHECK(extra("checkpoint_every", "{over: articulation, period: 2}") == 10 + 12 + 14);
    CHECK_THROWS_WITH_AS(extra("selective", "{save: [sotfmax]}"),
                         doctest::Contains("did you mean 'softmax'"), UserError);
    CHECK_THROWS_WITH_AS(extra("selective", "{}"), doctest::Contains("chooses nothing"), UserError);
    CHECK_THROWS_WITH_AS(extra("selective", "{save: [bmm], recompute: [linear]}"),
                         doctest::Contains("give one of save and recompute"), UserError);
    CHECK_THROWS_WITH_AS(
        static_cast<void>(find_plan_policy("megatron_selective")
                              ->decode(Decoder())(unit_chain(4), {.budget = Bytes(99)})),
        doctest::Contains("no layer of this graph"), UserError);
  }
}

TEST_SUITE("golden") {
  TEST_CASE("rotor equals the recorded values of the undiscretised recurrence on chains") {
    int compared = 0;
    for (const std::string& name : recorded_names()) {
      const RecordedCase recorded = recorded_case(name);
      for (const auto& one : recorded.json.at("cases")) {
        if (!one.contains("rotor")) continue;
        CAPTURE(name);
        const auto budget = one.at("budget").get<std::int64_t>();
        const auto plan = rotor_schedule(recorded.problem, budget);
        REQUIRE(plan.has_value() == !one.at("rotor").is_null());
        ++compared;
        if (!plan) continue;
        CHECK(plan->cost == one.at("rotor").get<std::int64_t>());
        const Evaluation result = evaluate(recorded.problem, plan->schedule);
        CHECK(result.cost == plan->cost);
        CHECK(result.peak <= budget);
      }
    }
    CHECK(compared == 24);
  }

  TEST_CASE("Chen's policies and keeping all have the recorded peaks and costs") {
    const auto figures = [](const RematProblem& problem, const std::vector<NodeIndex>& kept) {
      std::vector<bool> keep(problem.size());
      for (const NodeIndex node : kept)
        keep[node] = true;
      const Evaluation result = evaluate(problem, keep_schedule(problem, keep));
      return std::vector<std::int64_t>{result.peak, result.cost};
    };
    for (const std::string& name : recorded_names()) {
      const RecordedCase recorded = recorded_case(name);
      const RematProblem& problem = recorded.problem;
      const auto& baselines = recorded.json.at("baselines");
      CAPTURE(name);
      CHECK(figures(problem, forward_nodes(problem)) ==
            baselines.at("checkpoint_all").get<std::vector<std::int64_t>>());
      for (const bool articulation : {false, true}) {
        const std::string suffix = articulation ? "ap" : "linearized";
        const std::vector<NodeIndex> candidates =
            articulation ? articulation_nodes(problem) : forward_nodes(problem);
        CHECK(figures(problem, chen_sqrt_checkpoints(candidates)) ==
              baselines.at("chen_sqrtn_" + suffix).get<std::vector<std::int64_t>>());
        for (const auto& one : baselines.at("chen_greedy_" + suffix)) {
          const auto kept = chen_greedy_checkpoints(problem, candidates, one.at("b"));
          CHECK(kept == one.at("checkpoints").get<std::vector<NodeIndex>>());
          CHECK(figures(problem, kept) ==
                std::vector<std::int64_t>{one.at("peak"), one.at("cost")});
        }
      }
    }
  }

  TEST_CASE("Checkmate's relaxation is no looser than recorded and never above the optimum") {
    int reached = 0;
    for (const std::string name : {"chain_n4", "chain_n6", "chain_hom_n8", "unet_d2_n10"}) {
      const RecordedCase recorded = recorded_case(name);
      const auto& one = recorded.json.at("cases").at(1);
      CAPTURE(name);
      const CheckmateRelaxation relaxed =
          relax_checkmate(recorded.problem, one.at("budget"), {.iterations = 20'000});
      const double expected = one.at("lp_bound").get<double>();
      CHECK(relaxed.lower_bound <= one.at("exact_checkmate_class").at("cost").get<double>());
      reached += relaxed.lower_bound >= expected * (1 - 1e-3) ? 1 : 0;
    }
    CHECK(reached == 4);
  }
}

TEST_SUITE("property") {
  TEST_CASE("every policy's plan is within the budget and no cheaper than the optimum") {
    std::mt19937_64 rng(17);
    int feasible = 0;
    for (int round = 0; round < 12; ++round) {
      const RematProblem problem = random_problem(rng, 14, false);
      const std::int64_t budget =
          (problem.footprint(problem.largest_footprint()) + 2 * peak_without_repeats(problem)) / 3;
      const PlanResult best = plan_optimal(problem, {.budget = Bytes(budget)});
      for (const PlanPolicy& policy : plan_policies()) {
        if (policy.name == "revolve") continue;            // for chains only
        if (policy.name.ends_with("selective")) continue;  // for operators with names
        CAPTURE(policy.name);
        PlanResult plan;
        try {
          plan = policy.decode(Decoder())(
              problem, {.budget = Bytes(budget), .time_limit = std::chrono::seconds(1)});
        } catch (const UserError&) {
          CHECK((policy.name == "rotor" || policy.name == "rockmate"));  // chains of stages
          continue;
        }
        if (plan.status != PlanStatus::kFeasible && plan.status != PlanStatus::kOptimal) continue;
        ++feasible;
        REQUIRE(plan.solution);
        REQUIRE(best.solution);
        CHECK(plan.solution->evaluation.peak <= budget);
        CHECK(plan.solution->evaluation.cost >= best.solution->evaluation.cost);
        CHECK(*plan.lower_bound <= best.solution->evaluation.cost);
      }
    }
    CHECK(feasible > 25);
  }

  // A part of its input takes nothing while it is made, though both are there then.
  TEST_CASE("no bound of graphs with parts is above the optimum") {
    std::mt19937_64 rng(23);
    int decided = 0;
    for (int round = 0; round < 40; ++round) {
      const RematProblem problem = random_problem_with_parts(rng, 7, round % 2 == 0);
      const std::int64_t low = problem.footprint(problem.largest_footprint());
      for (const std::int64_t budget : {low, low + 1, low + 3}) {
        for (const ScheduleClass schedule_class : kScheduleClasses) {
          CAPTURE(round);
          CAPTURE(budget);
          CAPTURE(name_of(schedule_class));
          const ExactResult exact =
              exact_search(problem, {.budget = budget, .schedule_class = schedule_class});
          REQUIRE(exact.complete);
          if (!exact.schedule) continue;
          ++decided;
          CHECK(cut_bound(problem, budget, schedule_class) <= exact.lower_bound);
          // Recomputed parts change neither the cost nor what fits.
          const Evaluation again =
              evaluate(problem, with_parts_again(problem, *exact.schedule, schedule_class));
          CHECK(again.cost == exact.lower_bound);
          CHECK(again.peak <= budget);
          if (schedule_class != ScheduleClass::kCheckmate) continue;
          const CheckmateRelaxation relaxed =
              relax_checkmate(problem, budget, {.iterations = 2'000});
          CHECK(relaxed.lower_bound <= static_cast<double>(exact.lower_bound) + 1e-6);
        }
      }
    }
    CHECK(decided > 200);
  }

  TEST_CASE("a search that finds nothing in time keeps the plan for less memory") {
    std::mt19937_64 rng(7);
    const RematProblem problem = random_problem(rng, 12, false);
    const std::int64_t all = peak_without_repeats(problem);
    int calls = 0;
    const PlanFunction out_of_time = [&](const RematProblem& p, const PlanRequest& request) {
      if (++calls == 1) return plan_optimal(p, request);
      PlanResult nothing;
      nothing.reason = "the time is over";
      return nothing;
    };
    const std::vector<Bytes> budgets{Bytes(2 * all), Bytes(all)};
    const auto grid = plan_grid(problem, {&out_of_time, 1}, budgets, {});
    REQUIRE(grid.front()[0].solution);
    CHECK(grid.front()[0].status == PlanStatus::kFeasible);
    CHECK(grid.front()[0].reason.empty());
    CHECK(grid.front()[0].solution->schedule == grid.front()[1].solution->schedule);
  }

  TEST_CASE("one budget that is listed several times has one plan") {
    std::mt19937_64 rng(1);
    const RematProblem problem = random_problem(rng, 8, false);
    std::int64_t calls = 0;
    const PlanFunction plan = [&](const RematProblem& asked, const PlanRequest& request) {
      PlanResult result = plan_optimal(asked, request);
      result.lower_bound = ++calls;  // as a search that ends by time: another each time
      return result;
    };
    const std::int64_t peak = peak_without_repeats(problem);
    const std::vector<Bytes> budgets{Bytes(peak), Bytes(peak), Bytes(peak + 1), Bytes(peak)};
    const std::vector<PlanResult> row = plan_grid(problem, {&plan, 1}, budgets, {}).front();
    CHECK(calls == 2);
    for (const std::size_t k : {std::size_t{1}, std::size_t{3}}) {
      CHECK(row[k].lower_bound == row[0].lower_bound);
      REQUIRE(row[k].solution);
      CHECK(row[k].solution->schedule == row[0].solution->schedule);
    }
  }

  TEST_CASE("with every policy a larger budget never gives a worse plan or a larger bound") {
    std::mt19937_64 rng(23);
    int compared = 0;
    const int rounds = test::runs_long_tests() ? 8 : 4;
    for (int round = 0; round < rounds; ++round) {
      const RematProblem problem = round % 2 == 0
                                       ? random_problem(rng, 16, false)
                                       : unit_chain(static_cast<NodeIndex>(6 + rng() % 6));
      const std::int64_t low = problem.footprint(problem.largest_footprint());
      const std::int64_t high = peak_without_repeats(problem);
      std::vector<Bytes> budgets;
      for (int k = 8; k >= 0; --k)
        budgets.emplace_back(low + (high - low) * k / 8);
      for (const PlanPolicy& policy : plan_policies()) {
        CAPTURE(policy.name);
        const PlanFunction plan = policy.decode(Decoder());
        std::vector<std::vector<PlanResult>> grid;
        try {
          grid = plan_grid(problem, {&plan, 1}, budgets,
                           {.time_limit = std::chrono::seconds(1), .iterations = 300});
        } catch (const UserError&) {
          continue;  // for chains only
        }
        std::int64_t cost = 0;
        std::int64_t bound = 0;
        for (const PlanResult& result : grid.front()) {  // from the largest budget down
          const bool fits =
              result.status == PlanStatus::kOptimal || result.status == PlanStatus::kFeasible;
          CHECK((fits || cost == 0 || result.status != PlanStatus::kOptimal));
          if (result.lower_bound) CHECK(*result.lower_bound >= bound);
          bound = result.lower_bound.value_or(bound);
          if (!fits) {
            cost = std::int64_t{1} << 60;  // nothing smaller may fit again
            continue;
          }
          CHECK(result.solution->evaluation.cost >= cost);
          cost = result.solution->evaluation.cost;
          ++compared;
        }
      }
    }
    CHECK(compared > 25 * rounds);
  }

  TEST_CASE("values that stay under every schedule prove infeasibility for every policy") {
    // a (10 bytes, once) -> c, and x (15 bytes) -> b between: 25 bytes while x is computed.
    CostGraph graph;
    graph.name = "once";
    const auto add = [&](std::int64_t bytes, bool once, std::vector<CostNodeId> deps) {
      graph.nodes.push_back({.name = "n",
                             .kind = Phase::kForward,
                             .cost = 1,
                             .bytes = Bytes(bytes),
                             .deps = std::move(deps),
                             .once = once});
    };
    add(10, true, {});
    add(15, false, {});
    add(1, false, {CostNodeId(1U)});
    add(1, false, {CostNodeId(0U)});
    const RematProblem problem = remat_problem(graph);
    for (const char* policy : {"keep_all", "chen_greedy", "optimal"}) {
      CAPTURE(policy);
      const PlanResult tight = plan_with(policy, problem, 24);
      CHECK(tight.status == PlanStatus::kInfeasible);
      CHECK(!tight.lower_bound);
      CHECK(tight.reason.find("only once") != std::string::npos);
    }
  }

  TEST_CASE("nodes that may run only once are never recomputed, and bounds use it") {
    std::mt19937_64 rng(29);
    int plans = 0;
    for (int round = 0; round < 40; ++round) {
      RematProblem problem = random_problem(rng, 10, false);
      const RematProblem free = problem;
      for (NodeIndex node = 0; node < problem.size(); ++node)
        problem.once[node] = rng() % 3 == 0;
      const std::int64_t budget =
          (problem.footprint(problem.largest_footprint()) + peak_without_repeats(problem)) / 2;
      for (const ScheduleClass schedule_class : kScheduleClasses) {
        const PlanRequest request{.budget = Bytes(budget), .schedule_class = schedule_class};
        const PlanResult plan = plan_optimal(problem, request);
        const PlanResult unlimited = plan_optimal(free, request);
        CHECK(plan.status != PlanStatus::kUnknown);
        if (!plan.solution) continue;
        CHECK(!class_fault(problem, plan.solution->schedule, schedule_class));
        CHECK(plan.solution->evaluation.cost >= unlimited.solution->evaluation.cost);
        CHECK(*plan.lower_bound <= plan.solution->evaluation.cost);
        ++plans;
      }
    }
    CHECK(plans > 60);
  }

  TEST_CASE("a minimum cut weighs least of all choices of saved and recomputed values") {
    std::mt19937_64 rng(19);
    for (int round = 0; round < 60; ++round) {
      const RematProblem problem = random_problem(rng, 12, false);
      const auto forward = static_cast<NodeIndex>(forward_nodes(problem).size());
      const double price = 0.25 + static_cast<double>(rng() % 8);
      // Saved values determine what is recomputed: the closure of what backward reads.
      const auto weight = [&](const std::vector<bool>& saved) {
        std::vector<bool> needed(problem.size());
        double sum = 0;
        for (NodeIndex i = forward; i-- > 0;) {
          for (const NodeIndex reader : problem.readers[i]) {
            if (reader >= forward) needed[i] = true;
          }
        }
        for (NodeIndex i = forward; i-- > 0;) {
          if (saved[i]) sum += price * static_cast<double>(problem.bytes[i]);
          if (saved[i] || !needed[i]) continue;
          sum += static_cast<double>(problem.cost[i]);
          for (const NodeIndex dep : problem.deps[i])
            needed[dep] = true;
        }
        return sum;
      };
      double least = 1e18;
      for (unsigned set = 0; set < 1U << forward; ++set) {
        std::vector<bool> saved(problem.size());
        for (NodeIndex i = 0; i < forward; ++i)
          saved[i] = (set >> i & 1U) != 0;
        least = std::min(least, weight(saved));
      }
      CHECK(weight(*min_cut_saved(problem, price)) == doctest::Approx(least).epsilon(1e-9));
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("policies of chains refuse other graphs and say why") {
    const RecordedCase unet = recorded_case("unet_d2_n10");
    CHECK_THROWS_AS(plan_with("revolve", unet.problem, 200), UserError);
    CHECK_NOTHROW(plan_with("rotor", recorded_case("chain_n4").problem, 150));
  }

  TEST_CASE("a policy that does not fit is unknown, not infeasible, and shows its least peak") {
    const RecordedCase chain = recorded_case("chain_n6");
    const PlanResult plan = plan_with("keep_all", chain.problem, 200);
    CHECK(plan.status == PlanStatus::kUnknown);
    REQUIRE(plan.solution);
    CHECK(plan.solution->evaluation.peak == chain.json.at("no_recompute_peak").get<std::int64_t>());
    CHECK(plan.solution->evaluation.cost == chain.problem.base_cost);
  }
}

}  // namespace tidemark::plan_policy_test
