// Holds the policies of the registry against each other: on cost graphs of different models, and on
// the device.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "policies/plan_policies.hpp"
#include "policies/registry.hpp"
#include "policies/solver/plan_grid.hpp"
#include "scenarios/studies/fit.hpp"
#include "sim/step/compile.hpp"
#include "tests/policies/remat/remat_cases.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/instrumented.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::policies_compared_test {
namespace {

struct Model {
  std::string name;
  std::string model;
  std::string training;
};

// Activations decide the peak of each.
const std::vector<Model>& models() {
  static const std::vector<Model> all{
      {"transformer", "{preset: gpt2, layers: 2, vocab: 512}", "{sequence: 128, micro_batch: 16}"},
      {"CNN with residuals", "resnet18", "{micro_batch: 16}"},
      {"MLP chain", "{preset: mlp, widths: [64, 96, 128, 64, 128, 96, 64, 128, 10]}",
       "{micro_batch: 4096}"},
      {"U-Net", "{preset: unet, image: 64}", "{micro_batch: 4}"},
      {"encoder and decoder", "{preset: t5, layers: 1, decoder_layers: 1, vocab: 512}",
       "{sequence: 64, micro_batch: 32}"},
      {"mobile CNN", "{preset: mobilenet_v2, image: 96}", "{micro_batch: 16}"},
  };
  return all;
}

RematProblem problem_of(const Model& model) {
  const Scenario scenario = decode(fmt::format("model: {}\nhardware: a100-sxm-80gb\ntraining: {}\n",
                                               model.model, model.training));
  return remat_problem(cost_graph_of(scenario, build_training(scenario).training));
}

// A policy that searches, or cuts between single values, can use any room; one that chooses among
// few schedules cannot.
bool uses_any_room(const PlanPolicy& policy) {
  return policy.any_schedule || policy.shares || policy.search.seed;
}

struct Plans {
  std::vector<const PlanPolicy*> policies;
  std::vector<std::vector<PlanResult>> grid;  // by policy and budget
  std::vector<bool> in_time;  // by policy: true only where the time limit cut off no plan
};

// Plans with every policy of the registry that takes this graph without parameters of its own.
Plans plans_of(const RematProblem& problem, std::span<const Bytes> budgets) {
  Plans plans;
  for (const PlanPolicy& policy : plan_policies()) {
    try {
      const PlanFunction plan = policy.decode(Decoder());
      // Iterations give the same plan everywhere; the linear program of others takes long.
      const int patience = test::kInstrumented ? 3'000 : 200;
      const std::chrono::milliseconds limit(policy.search.iterations ? 3'600'000 : patience);
      const auto begin = std::chrono::steady_clock::now();
      auto rows = plan_grid(problem, {&plan, 1}, budgets, {.time_limit = limit, .iterations = 20});
      plans.in_time.push_back(std::chrono::steady_clock::now() - begin < limit);
      plans.policies.push_back(&policy);
      plans.grid.push_back(std::move(rows.front()));
    } catch (const UserError&) {  // it is for other graphs, or has parameters
    }
  }
  return plans;
}

// The iterations that a search needs in place of a time limit, so that the plan is the same
// everywhere.
std::string listed(const PolicyEntry& entry, std::string_view parameters) {
  const bool iterates = entry.plan != nullptr && entry.plan().search.iterations;
  return fmt::format("[{}: {{{}{}}}]", entry.name, parameters, iterates ? "iterations: 5" : "");
}

// Returns the largest batch that fits, and whether the policy has recomputed and moved nothing at
// it; nothing where the scenario refuses the policy.
struct Largest {
  std::int64_t batch = 0;
  bool recomputes = false;
};
std::optional<Largest> largest_batch(const std::string& model, const std::string& policies) {
  const Value scenario = parse_document(fmt::format("{}, policies: {}}}", model, policies), "test");
  try {
    const Fit found =
        fit(scenario, environment(),
            {.key = "training.micro_batch", .simulate = {.convergence_limit = kConvergenceLimit}});
    if (!found.largest) return Largest{};
    const PointResult& point = found.tried[*found.largest].result;
    Largest largest{.batch = found.tried[*found.largest].value};
    for (const PolicyOutcome& outcome : point.policies) {
      largest.recomputes = outcome.recomputed_operators > 0 && outcome.offloaded == Bytes(0);
    }
    return largest;
  } catch (const UserError&) {  // it needs parameters, or another allocator
    return std::nullopt;
  }
}

// Compares the largest batch of `optimal` with that of every policy of the registry that only
// recomputes, each with its defaults.
int first_in_fit(const std::string& model) {
  std::int64_t first = 0;
  std::map<std::string, std::int64_t> others;
  const PolicyRegistry registry;
  for (const PolicyEntry& entry : registry.entries()) {
    if (entry.kind != "sequence" && entry.kind != "residency") continue;
    if (entry.plan != nullptr && entry.plan().search.seed && !entry.plan().any_schedule) continue;
    const std::optional<Largest> largest = largest_batch(model, listed(entry, ""));
    if (!largest || !largest->recomputes) continue;
    if (entry.plan != nullptr && entry.plan().any_schedule) {
      first = largest->batch;
    } else {
      others.emplace(entry.name, largest->batch);
    }
  }
  for (const auto& [name, batch] : others) {
    CAPTURE(name);
    CHECK(first >= batch);
  }
  return static_cast<int>(others.size());
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("no policy of the registry is dominated by what lies in its space, none wastes room") {
    // One budget for each model, wide and tight in turn; all four with the slow tests.
    const bool every = test::runs_long_tests();
    int compared = 0;
    int bound = 0;
    bool tight = false;
    for (const Model& model : models()) {
      const RematProblem problem = problem_of(model);
      const std::int64_t low = problem.footprint(problem.largest_footprint());
      const std::int64_t high = testing::peak_without_repeats(problem);
      REQUIRE(high > low);
      std::vector<Bytes> budgets;
      tight = !tight;
      for (const int percent : every ? std::vector{90, 70, 50, 30} : std::vector{tight ? 30 : 70})
        budgets.emplace_back(low + (high - low) / 100 * percent);
      const Plans plans = plans_of(problem, budgets);
      for (std::size_t b = 0; b < budgets.size(); ++b) {
        std::int64_t cheapest = kInfinite;
        for (const std::vector<PlanResult>& row : plans.grid) {
          if (has_schedule(row[b].status))
            cheapest = std::min(cheapest, row[b].solution->evaluation.cost);
        }
        for (std::size_t p = 0; p < plans.policies.size(); ++p) {
          const PlanPolicy& policy = *plans.policies[p];
          const PlanResult& plan = plans.grid[p][b];
          CAPTURE(model.name);
          CAPTURE(policy.name);
          CAPTURE(budgets[b].count);
          if (!has_schedule(plan.status)) {
            // Where anything fits, so does a policy to which every schedule is open.
            CHECK_FALSE((policy.any_schedule && cheapest < kInfinite));
            continue;
          }
          const Evaluation& figures = plan.solution->evaluation;
          CHECK(figures.peak <= budgets[b].count);
          CHECK(*plan.lower_bound <= cheapest);
          if (policy.any_schedule) CHECK(figures.cost == cheapest);
          ++compared;
          // Values are whole: a plan may leave more of the budget where none is cheaper.
          const bool binds = figures.cost > problem.base_cost;
          if (!binds || !uses_any_room(policy) || !plans.in_time[p]) continue;
          ++bound;
          CAPTURE(figures.cost);
          CAPTURE(cheapest);
          if (figures.cost > cheapest) CHECK(figures.peak >= budgets[b].count / 100 * 95);
        }
      }
    }
    CHECK(compared > (every ? 100 : 25));
    CHECK(bound > (every ? 20 : 8));
  }
}

TEST_SUITE("slow") {
  TEST_CASE("optimal is first among the policies that recompute in fit") {
    if (!test::runs_long_tests()) {
      MESSAGE("skipped: takes minutes; set TIDEMARK_LONG_TESTS=1");
      return;
    }
    int others = 0;
    for (const char* model :
         {"{model: {preset: bert-base, layers: 2, vocab: 4096}, hardware: {gpu: v100-sxm-16gb, "
          "hbm: {capacity: 1GiB}}, training: {sequence: 128}",
          "{model: {preset: mobilenet_v2, image: 128}, hardware: {gpu: v100-sxm-16gb, hbm: "
          "{capacity: 1GiB}}, training: {optimizer: sgd}"}) {
      CAPTURE(std::string(model));
      others += first_in_fit(model);
    }
    CHECK(others >= 8);
  }
}

}  // namespace tidemark::policies_compared_test
