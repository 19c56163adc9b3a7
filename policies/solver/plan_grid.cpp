#include "policies/solver/plan_grid.hpp"

#include <algorithm>
#include <numeric>

namespace tidemark {

std::vector<std::vector<PlanResult>> plan_grid(const RematProblem& problem,
                                               std::span<const PlanFunction> policies,
                                               std::span<const std::int64_t> budgets,
                                               const PlanRequest& request) {
  std::vector<std::size_t> ascending(budgets.size());
  std::iota(ascending.begin(), ascending.end(), std::size_t{0});
  std::stable_sort(ascending.begin(), ascending.end(),
                   [&](std::size_t a, std::size_t b) { return budgets[a] < budgets[b]; });
  const auto has_plan = [](const PlanResult& result) {
    return result.status == PlanStatus::kOptimal || result.status == PlanStatus::kFeasible;
  };
  std::vector<std::vector<PlanResult>> grid;
  for (const PlanFunction& plan : policies) {
    std::vector<PlanResult>& row = grid.emplace_back(budgets.size());
    PlanRequest next = request;
    for (const std::size_t k : ascending) {
      next.budget = budgets[k];
      row[k] = plan(problem, next);
      if (has_plan(row[k])) next.known = &row[k].solution->schedule;
    }
    // A bound that holds with more memory holds with less.
    std::int64_t proven = 0;
    for (auto k = ascending.rbegin(); k != ascending.rend(); ++k) {
      PlanResult& result = row[*k];
      if (!result.lower_bound) continue;
      proven = std::max(proven, *result.lower_bound);
      result.lower_bound = proven;
      if (has_plan(result) && result.solution->evaluation.cost <= proven) {
        result.status = PlanStatus::kOptimal;
      }
    }
  }
  return grid;
}

}  // namespace tidemark
