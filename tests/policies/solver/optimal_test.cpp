// The exact search against a plain shortest path over single computations and single frees, and
// properties that hold for every plan.
#include "policies/solver/optimal.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "policies/remat/reachability.hpp"
#include "policies/solver/closure_bound.hpp"
#include "policies/solver/exact_search.hpp"
#include "policies/solver/lower_bound.hpp"
#include "policies/solver/neighbourhood_search.hpp"
#include "tests/policies/remat/remat_cases.hpp"
#include "tests/policies/solver/least_cost.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::optimal_test {

using namespace tidemark::testing;

TEST_SUITE("property") {
  TEST_CASE("the exact search finds the least cost of random graphs in every class") {
    std::mt19937_64 rng(7);
    int infeasible = 0;
    int dearer = 0;
    for (int round = 0; round < 300; ++round) {
      const RematProblem problem =
          random_problem(rng, 5 + static_cast<NodeIndex>(round % 5), round % 3 == 0);
      const std::int64_t low = problem.footprint(problem.largest_footprint());
      for (std::int64_t budget = low; budget <= peak_without_repeats(problem); ++budget) {
        for (const ScheduleClass schedule_class : kScheduleClasses) {
          CAPTURE(round);
          CAPTURE(budget);
          CAPTURE(name_of(schedule_class));
          const auto expected = least_cost(problem, budget, schedule_class);
          const ExactResult exact =
              exact_search(problem, {.budget = budget, .schedule_class = schedule_class});
          REQUIRE(exact.complete);
          REQUIRE(exact.schedule.has_value() == expected.has_value());
          infeasible += expected ? 0 : 1;
          if (!expected) continue;
          const Evaluation figures = evaluate(problem, *exact.schedule);
          CHECK(figures.cost == *expected);
          CHECK(exact.lower_bound == *expected);
          CHECK(figures.peak <= budget);
          CHECK_FALSE(class_fault(problem, *exact.schedule, schedule_class));
          CHECK(cut_bound(problem, budget, schedule_class) <= *expected);
          dearer += *expected > problem.base_cost ? 1 : 0;
        }
      }
    }
    CHECK(infeasible > 20);  // the graphs are worth searching
    CHECK(dearer > 100);
  }

  TEST_CASE("a search below the optimum ends without a schedule and proves it") {
    std::mt19937_64 rng(11);
    for (int round = 0; round < 40; ++round) {
      const RematProblem problem = random_problem(rng, 8, false);
      const std::int64_t budget = peak_without_repeats(problem) - 1;
      if (budget < problem.footprint(problem.largest_footprint())) continue;
      const ExactResult best = exact_search(problem, {.budget = budget});
      if (!best.schedule) continue;
      const ExactResult below =
          exact_search(problem, {.budget = budget, .better_than = best.lower_bound});
      CHECK(below.complete);
      CHECK_FALSE(below.schedule);
      CHECK(below.lower_bound == best.lower_bound);
    }
  }

  TEST_CASE("some schedule fits exactly when every node can be computed from nothing") {
    std::mt19937_64 rng(5);
    int impossible = 0;
    for (int round = 0; round < 150; ++round) {
      const RematProblem problem = random_problem(rng, 8, round % 2 == 0);
      const std::int64_t low = problem.footprint(problem.largest_footprint());
      for (std::int64_t budget = low; budget < low + 4; ++budget) {
        const Construction found = construct_schedule(problem, budget, 100'000);
        const ExactResult exact = exact_search(problem, {.budget = budget});
        REQUIRE(found.reach != Reach::kStopped);
        CHECK((found.reach == Reach::kReached) == exact.schedule.has_value());
        if (found.reach == Reach::kReached) {
          CHECK(evaluate(problem, found.schedule).peak <= budget);
          CHECK_FALSE(class_fault(problem, found.schedule, ScheduleClass::kFixed));
        } else {
          ++impossible;
        }
      }
    }
    CHECK(impossible > 5);
  }

  TEST_CASE("neighbourhood search keeps to budget and class and is never below the optimum") {
    std::mt19937_64 rng(3);
    int equal = 0;
    int found_any = 0;
    for (int round = 0; round < 60; ++round) {
      const RematProblem problem = random_problem(rng, 14, false);
      const std::int64_t low = problem.footprint(problem.largest_footprint());
      const std::int64_t budget = (low + peak_without_repeats(problem)) / 2;
      Schedule once(problem.size());
      std::iota(once.begin(), once.end(), NodeIndex{0});
      for (const bool checkmate : {false, true}) {
        const ScheduleClass schedule_class =
            checkmate ? ScheduleClass::kCheckmate : ScheduleClass::kFixed;
        const auto found = neighbourhood_search(
            problem, once, {.budget = budget, .checkmate = checkmate, .iterations = 300});
        const ExactResult exact =
            exact_search(problem, {.budget = budget, .schedule_class = schedule_class});
        if (!found) continue;
        ++found_any;
        CHECK(found->evaluation.peak <= budget);
        CHECK_FALSE(class_fault(problem, found->schedule, schedule_class));
        REQUIRE(exact.schedule);
        CHECK(found->evaluation.cost >= exact.lower_bound);
        equal += found->evaluation.cost == exact.lower_bound ? 1 : 0;
      }
    }
    CHECK(found_any > 60);
    CHECK(equal * 10 >= found_any * 9);  // small graphs: nearly always the optimum
  }
}

TEST_SUITE("golden") {
  TEST_CASE("recorded optima of three classes are found and proven") {
    for (const std::string& name : recorded_names()) {
      const RecordedCase recorded = recorded_case(name);
      for (const auto& one : recorded.json.at("cases")) {
        for (const ScheduleClass schedule_class : kScheduleClasses) {
          const char* keys[] = {"exact_checkmate_class", "exact_fixed_frontier",
                                "exact_unrestricted"};
          const auto& expected = one.at(keys[static_cast<std::size_t>(schedule_class)]);
          CAPTURE(name);
          CAPTURE(name_of(schedule_class));
          const PlanResult plan =
              plan_optimal(recorded.problem, {.budget = Bytes(one.at("budget").get<std::int64_t>()),
                                              .schedule_class = schedule_class});
          if (expected.at("status") == "INF") {
            CHECK(plan.status == PlanStatus::kInfeasible);
            CHECK_FALSE(plan.solution);
            CHECK_FALSE(plan.reason.empty());
          } else {
            REQUIRE(plan.solution);
            CHECK(plan.status == PlanStatus::kOptimal);
            CHECK(plan.solution->evaluation.cost == expected.at("cost").get<std::int64_t>());
            CHECK(plan.lower_bound == plan.solution->evaluation.cost);
          }
        }
      }
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("an evaluation counts inputs, output, workspace and fixed bytes") {
    // a (4 B) -> b (2 B, workspace 3) -> c (1 B) reads a and b; 10 fixed bytes.
    CostGraph graph;
    graph.fixed_bytes = Bytes(10);
    const CostNodeId a = graph.nodes.push_back({.name = "a", .cost = 1, .bytes = Bytes(4)});
    const CostNodeId b = graph.nodes.push_back(
        {.name = "b", .cost = 2, .bytes = Bytes(2), .workspace = Bytes(3), .deps = {a}});
    graph.nodes.push_back({.name = "c", .cost = 5, .bytes = Bytes(1), .deps = {a, b}});
    const RematProblem problem = remat_problem(graph);
    const Evaluation once = evaluate(problem, Schedule{0, 1, 2});
    CHECK(once.peak == 10 + 4 + 2 + 3);  // during b; c takes 4 + 2 + 1
    CHECK(once.cost == 8);
    // The second a lets the first be freed after b.
    CHECK(evaluate(problem, Schedule{0, 1, 0, 2}).cost == 9);
    CHECK_THROWS_AS(static_cast<void>(evaluate(problem, Schedule{1, 0, 2})), InternalError);
    CHECK_THROWS_AS(static_cast<void>(evaluate(problem, Schedule{0, 1})), InternalError);
    CHECK(class_fault(problem, Schedule{0, 1, 0, 0, 2}, ScheduleClass::kCheckmate));
    CHECK_FALSE(class_fault(problem, Schedule{0, 1, 0, 0, 2}, ScheduleClass::kFixed));
    CHECK(class_fault(problem, Schedule{0, 1, 2, 0}, ScheduleClass::kCheckmate));
  }

  TEST_CASE("the cheapest cover equals the best of all subsets") {
    std::mt19937_64 rng(2);
    for (int round = 0; round < 200; ++round) {
      std::vector<KnapsackItem> items;
      for (int i = 0; i < 9; ++i)
        items.push_back({.cost = static_cast<std::int64_t>(rng() % 30),
                         .bytes = static_cast<std::int64_t>(rng() % 20)});
      const auto excess = static_cast<std::int64_t>(rng() % 90);
      std::int64_t best = std::int64_t{1} << 60;
      for (unsigned set = 0; set < 512; ++set) {
        std::int64_t cost = 0;
        std::int64_t bytes = 0;
        for (unsigned i = 0; i < 9; ++i) {
          if ((set >> i & 1U) == 0) continue;
          cost += items[i].cost;
          bytes += items[i].bytes;
        }
        if (bytes >= excess) best = std::min(best, cost);
      }
      CHECK(cheapest_cover(items, excess) == best);
    }
  }

  TEST_CASE("the closure bound of a cut is just below the best choice of what to keep") {
    std::mt19937_64 rng(23);
    int close = 0;
    int positive = 0;
    for (int round = 0; round < 80; ++round) {
      const RematProblem problem = random_problem(rng, 10, true);
      ClosureCut cut{.node = 9, .room = static_cast<std::int64_t>(rng() % 12), .needed = {}};
      const std::vector<NodeIndex>& inputs = problem.deps[9];
      const auto is_input = [&](NodeIndex i) {
        return std::binary_search(inputs.begin(), inputs.end(), i);
      };
      for (NodeIndex i = 0; i < 9; ++i) {
        if (!is_input(i) && rng() % 2 == 0) cut.needed.push_back(i);
      }
      // The least recomputation for every set that is kept.
      std::int64_t least = std::int64_t{1} << 60;
      for (unsigned kept = 0; kept < 512; ++kept) {
        std::int64_t bytes = 0;
        std::int64_t cost = 0;
        std::vector<bool> wanted(9);
        for (const NodeIndex i : cut.needed)
          wanted[i] = true;
        for (NodeIndex i = 9; i-- > 0;) {
          if ((kept >> i & 1U) != 0 && !is_input(i)) {
            bytes += problem.bytes[i];
          } else if (wanted[i] && !is_input(i)) {
            cost += problem.cost[i];
            for (const NodeIndex dep : problem.deps[i])
              wanted[dep] = true;
          }
        }
        if (bytes <= cut.room) least = std::min(least, cost);
      }
      const double bound = closure_bound(problem, cut).cost;
      CHECK(bound <= static_cast<double>(least) + 1e-6);
      positive += least > 0 ? 1 : 0;
      close += least > 0 && bound >= 0.6 * static_cast<double>(least) ? 1 : 0;
    }
    CHECK(positive > 40);
    CHECK(close * 10 >= positive * 8);
  }

  TEST_CASE("a budget below the largest footprint is infeasible and says which node") {
    const RecordedCase recorded = recorded_case("chain_n4");
    const NodeIndex node = recorded.problem.largest_footprint();
    const PlanResult plan =
        plan_optimal(recorded.problem, {.budget = Bytes(recorded.problem.footprint(node) - 1)});
    CHECK(plan.status == PlanStatus::kInfeasible);
    CHECK(plan.reason.find(std::to_string(recorded.problem.footprint(node))) != std::string::npos);
  }

  TEST_CASE("what a cut's bound chooses is a schedule that has room at that cut") {
    std::mt19937_64 rng(29);
    int seen = 0;
    for (int round = 0; round < 30; ++round) {
      const RematProblem problem = random_problem(rng, 60, false);
      const std::int64_t low = problem.footprint(problem.largest_footprint());
      const std::int64_t high = peak_without_repeats(problem);
      const std::int64_t budget = low + (high - low) * (2 + round % 7) / 10;
      std::vector<CutChoice> choices;
      const std::int64_t bound = cut_bound(problem, budget, ScheduleClass::kFixed,
                                           std::chrono::steady_clock::time_point::max(), &choices);
      for (const CutChoice& choice : choices) {
        const Schedule schedule = schedule_of(problem, choice);
        CHECK_FALSE(class_fault(problem, schedule, ScheduleClass::kCheckmate));
        const Evaluation whole = evaluate(problem, schedule);
        CHECK((whole.peak > budget || whole.cost >= bound));
        // Bytes while the cut's node is computed: inputs and values that are read later before they
        // are recomputed.
        std::int64_t used = problem.footprint(choice.node);
        const auto at = std::find(schedule.begin(), schedule.end(), choice.node);
        for (NodeIndex i = 0; i < choice.node; ++i) {
          const std::vector<NodeIndex>& inputs = problem.deps[choice.node];
          if (std::binary_search(inputs.begin(), inputs.end(), i)) continue;
          const auto next = std::find_if(at + 1, schedule.end(), [&](NodeIndex node) {
            const std::vector<NodeIndex>& deps = problem.deps[node];
            return node == i || std::binary_search(deps.begin(), deps.end(), i);
          });
          if (next != schedule.end() && *next != i) used += problem.bytes[i];
        }
        CHECK((choice.recomputed.empty() || used <= budget));
        ++seen;
      }
    }
    CHECK(seen > 20);
  }

  TEST_CASE("with iterations and a seed, plans of large graphs are the same each time") {
    std::mt19937_64 rng(31);
    int planned = 0;
    const int rounds = test::runs_long_tests() ? 3 : 1;
    for (int round = 0; round < rounds; ++round) {
      const RematProblem problem = random_problem(rng, 80, false);
      const std::int64_t high = peak_without_repeats(problem);
      for (const int share : {90, 95}) {
        const PlanRequest request{.budget = Bytes(high * share / 100),
                                  .time_limit = std::chrono::hours(1),
                                  .iterations = 20,
                                  .seed = 5};
        if (footprint_fault(problem, request.budget.count)) continue;
        const PlanResult plan = plan_optimal(problem, request);
        const PlanResult again = plan_optimal(problem, request);
        REQUIRE(plan.solution.has_value() == again.solution.has_value());
        CHECK(plan.lower_bound == again.lower_bound);
        if (!plan.solution) continue;
        CHECK(plan.solution->schedule == again.solution->schedule);
        CHECK(plan.solution->evaluation.cost >= plan.lower_bound);
        ++planned;
      }
    }
    CHECK(planned >= rounds);
  }

  TEST_CASE("plans are the same each time and do not get dearer with the budget") {
    std::mt19937_64 rng(21);
    for (int round = 0; round < 6; ++round) {
      const RematProblem problem = random_problem(rng, 20, false);
      std::int64_t before = std::int64_t{1} << 60;
      const std::int64_t low = problem.footprint(problem.largest_footprint());
      for (std::int64_t budget = low; budget <= peak_without_repeats(problem); ++budget) {
        const PlanResult plan = plan_optimal(problem, {.budget = Bytes(budget)});
        if (!plan.solution) continue;
        CHECK(plan.solution->evaluation.cost <= before);
        before = plan.solution->evaluation.cost;
        const PlanResult again = plan_optimal(problem, {.budget = Bytes(budget)});
        REQUIRE(again.solution);
        CHECK(again.solution->schedule == plan.solution->schedule);
      }
      CHECK(before == problem.base_cost);
    }
  }
}

}  // namespace tidemark::optimal_test
