#include "policies/solver/plan_grid.hpp"

#include <algorithm>
#include <numeric>

namespace tidemark {

std::vector<std::vector<PlanResult>> plan_grid(const RematProblem& problem,
                                               std::span<const PlanFunction> policies,
                                               std::span<const Bytes> budgets,
                                               const PlanRequest& request) {
  std::vector<std::size_t> ascending(budgets.size());
  std::iota(ascending.begin(), ascending.end(), std::size_t{0});
  std::stable_sort(ascending.begin(), ascending.end(),
                   [&](std::size_t a, std::size_t b) { return budgets[a] < budgets[b]; });
  std::vector<std::vector<PlanResult>> grid;
  for (const PlanFunction& plan : policies) {
    std::vector<PlanResult>& row = grid.emplace_back(budgets.size());
    PlanRequest next = request;
    const PlanResult* smaller = nullptr;
    const PlanResult* same = nullptr;
    for (const std::size_t k : ascending) {
      // Searches that end by time differ; of one budget there is one plan.
      if (same != nullptr && budgets[k] == next.budget) {
        row[k] = *same;
        continue;
      }
      same = &row[k];
      next.budget = budgets[k];
      row[k] = plan(problem, next);
      // A search that runs out of time may find nothing, though the plan for less memory fits.
      const bool worse = smaller != nullptr &&
                         (!has_schedule(row[k].status) ||
                          row[k].solution->evaluation.cost > smaller->solution->evaluation.cost);
      if (worse) {
        row[k].solution = smaller->solution;
        row[k].status = PlanStatus::kFeasible;
        row[k].reason.clear();
      }
      if (!has_schedule(row[k].status)) continue;
      smaller = &row[k];
      next.known = &smaller->solution->schedule;
    }
    // A bound that holds with more memory holds with less.
    std::int64_t proven = 0;
    for (auto k = ascending.rbegin(); k != ascending.rend(); ++k) {
      PlanResult& result = row[*k];
      if (!result.lower_bound) continue;
      proven = std::max(proven, *result.lower_bound);
      result.lower_bound = proven;
      if (has_schedule(result.status) && result.solution->evaluation.cost <= proven) {
        result.status = PlanStatus::kOptimal;
      }
    }
  }
  return grid;
}

}  // namespace tidemark
