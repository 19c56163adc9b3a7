// Every policy for cost graphs keeps its time limit, and its memory, on graphs far too large for
// what it would like to do.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "graph/core/errors.hpp"
#include "policies/plan_policies.hpp"
#include "policies/remat/keep_set.hpp"
#include "policies/remat/spread_evenly.hpp"
#include "policies/solver/chain.hpp"
#include "policies/solver/choose_schedule.hpp"
#include "policies/solver/lower_bound.hpp"
#include "policies/solver/min_cut.hpp"
#include "tests/policies/remat/remat_cases.hpp"
#include "tests/support/instrumented.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::search_limits_test {

using namespace tidemark::testing;

namespace {

using Clock = std::chrono::steady_clock;

using Nodes = std::vector<CostNodeId>;

void add(CostGraph& graph, Phase kind, Nodes deps) {
  graph.nodes.push_back(
      {.name = "n", .kind = kind, .cost = 1, .bytes = Bytes(1), .deps = std::move(deps)});
}
CostNodeId newest(const CostGraph& graph) {
  return CostNodeId(graph.nodes.size() - 1);
}

RematProblem chain_of(NodeIndex forward) {
  CostGraph graph;
  for (NodeIndex v = 0; v < forward; ++v)
    add(graph, Phase::kForward, v == 0 ? Nodes{} : Nodes{CostNodeId(v - 1)});
  add(graph, Phase::kBackward, {newest(graph)});
  for (NodeIndex v = forward - 1; v-- > 0;)
    add(graph, Phase::kBackward, {CostNodeId(v), newest(graph)});
  return remat_problem(graph);
}

// A row of forward nodes whose last is read by `leaves`, which the loss adds up; backward reads
// them one by one.
RematProblem shared_trunk(NodeIndex trunk, NodeIndex leaves) {
  CostGraph graph;
  for (NodeIndex v = 0; v < trunk; ++v)
    add(graph, Phase::kForward, v == 0 ? Nodes{} : Nodes{CostNodeId(v - 1)});
  Nodes all;
  for (NodeIndex v = 0; v < leaves; ++v) {
    add(graph, Phase::kForward, {CostNodeId(trunk - 1)});
    all.push_back(newest(graph));
  }
  add(graph, Phase::kForward, all);
  for (NodeIndex v = 0; v < leaves; ++v)
    add(graph, Phase::kBackward, {CostNodeId(trunk + v), newest(graph)});
  return remat_problem(graph);
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

// The most memory that the process has taken so far, in KiB.
long most_resident() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("every policy ends at its time limit and takes memory in proportion to the graph") {
    constexpr double kLimit = 0.25;  // seconds
    std::mt19937_64 rng(3);
    std::size_t ended = 0;
    const auto sizes = test::runs_long_tests() ? std::vector<NodeIndex>{6'000, 15'000}
                                               : std::vector<NodeIndex>{15'000};
    for (const NodeIndex forward : sizes) {
      const RematProblem problem = residual_problem(rng, forward);
      const std::int64_t budget = peak_without_repeats(problem) * 6 / 10;
      for (const PlanPolicy& policy : plan_policies()) {
        CAPTURE(policy.name);
        CAPTURE(forward);
        const long before = most_resident();
        const double begin = processor_seconds();
        try {
          const PlanResult plan = policy.decode(Decoder())(
              problem, {.budget = Bytes(budget),
                        .time_limit = std::chrono::milliseconds(static_cast<int>(1000 * kLimit))});
          if (has_schedule(plan.status)) CHECK(plan.solution->evaluation.peak <= budget);
          if (plan.lower_bound) CHECK(*plan.lower_bound >= problem.base_cost);
        } catch (const UserError&) {  // says for which graphs the policy is
        }
        ++ended;
        if (test::kInstrumented) continue;
        // A tenth more, and what one step of a search takes at this size: 0.1 s, and 0.14 where
        // the core's other thread is busy. Searches without a limit take 23 s and more.
        CHECK(processor_seconds() - begin < 1.1 * kLimit + 0.2);
        // A table of nodes x nodes would take 30,000 x 30,000 / 8 bytes = 107 MiB in bits alone.
        CHECK(most_resident() - before < 96 * 1024);
      }
    }
    CHECK(ended == sizes.size() * plan_policies().size());
  }

  TEST_CASE("a plan is found early in the time for a large graph") {
    std::mt19937_64 rng(5);
    const RematProblem problem = residual_problem(rng, test::runs_long_tests() ? 6'000 : 3'000);
    const std::int64_t budget = peak_without_repeats(problem) * 6 / 10;
    for (const char* name : {"chen_greedy", "rotor", "rockmate", "min_cut", "optimal"}) {
      CAPTURE(std::string(name));
      const PlanResult plan = find_plan_policy(name)->decode(Decoder())(
          problem, {.budget = Bytes(budget),
                    .time_limit = std::chrono::milliseconds(
                        test::kInstrumented ? 20'000 : (test::runs_long_tests() ? 1'000 : 500))});
      CHECK(has_schedule(plan.status));
    }
  }

  TEST_CASE("a schedule that would grow with the square of the graph is not made") {
    // 4 nodes in a row, 3 that read the last of them, the loss, 3 of backward; each of backward
    // needs its leaf once more and the row with it, which nothing in backward reads: 3 x 5.
    const RematProblem few = shared_trunk(4, 3);
    CHECK(keep_schedule(few, std::vector<bool>(few.size())).size() == 11 + 15);
    // 2,000 x 10,001 are 20 million.
    const RematProblem many = shared_trunk(10'000, 2'000);
    CHECK(keep_schedule(many, std::vector<bool>(many.size())).empty());
    CHECK(keep_schedule(many, std::vector<bool>(many.size(), true)).size() == 14'001);
    PlanRequest request{.budget = Bytes(4'000), .time_limit = std::chrono::milliseconds(300)};
    ScheduleChoice choice(many, request, "some policy");
    choice.consider({});
    const PlanResult plan = choice.result();
    CHECK(plan.status == PlanStatus::kUnknown);
    CHECK(plan.reason ==
          "some policy recomputes so much here that its schedules have more than 10000000 "
          "computations");
  }

  TEST_CASE("an end of the time leaves bounds that hold, and no cut") {
    std::mt19937_64 rng(9);
    const RematProblem problem = random_problem(rng, 60, false);
    const std::int64_t budget =
        (problem.footprint(problem.largest_footprint()) + 2 * peak_without_repeats(problem)) / 3;
    const std::int64_t whole = cut_bound(problem, budget, ScheduleClass::kFixed);
    const std::int64_t cut = cut_bound(problem, budget, ScheduleClass::kFixed, Clock::now());
    CHECK(cut >= problem.base_cost);
    CHECK(cut <= whole);
    CHECK_FALSE(min_cut_saved(problem, 1, Clock::now() - std::chrono::seconds(1)));
    CHECK(min_cut_saved(problem, 1));
  }

  TEST_CASE("chains too long for a table of their square are told so, or made of fewer stages") {
    const RematProblem chain = chain_of(5'000);
    REQUIRE(is_chain(chain));
    const PlanRequest request{.budget = Bytes(3'000), .time_limit = std::chrono::seconds(1)};
    CHECK_THROWS_WITH_AS(
        static_cast<void>(find_plan_policy("revolve")->decode(Decoder())(chain, request)),
        doctest::Contains("up to 4000 forward nodes"), UserError);
    CHECK(has_schedule(find_plan_policy("rotor")->decode(Decoder())(chain, request).status));
  }

  TEST_CASE("every beginning of a list that is spread evenly is spread evenly") {
    CHECK(spread_evenly(std::vector<int>{}).empty());
    CHECK(spread_evenly(std::vector<int>{7}) == std::vector<int>{7});
    CHECK(spread_evenly(std::vector<int>{0, 1, 2, 3, 4, 5}) == std::vector<int>{0, 4, 2, 1, 3, 5});
    CHECK(spread_evenly(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}) ==
          std::vector<int>{0, 4, 2, 6, 1, 3, 5, 7});
  }
}

}  // namespace tidemark::search_limits_test
