// With more memory a plan is never worse: points that differ in nothing but the budget of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scenarios/studies/detailed_point.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

// Of the policy that solves for a budget.
[[nodiscard]] std::optional<PlanFigures> plan_of(const PointResult& point);
void set_plan(PointResult& point, const PlanFigures& plan);
// The plan for less memory stands in; what is proven, and for which budget, is `asked`.
void keep_bound(PointResult& point, const std::optional<PlanFigures>& asked);

// The documents of a sweep, by index, in runs to be simulated one after the other: all that agree
// but for the bytes that one policy of checkpoint placement gets as its budget, smallest first.
// Every other document is a run of its own. Runs and their members keep the order of the first.
[[nodiscard]] std::vector<std::vector<std::size_t>> budget_runs(std::span<const Value> documents);

// Runs the points of budget_runs() one by one: each is told what the best one so far decided, and
// where that is better than its own, it is taken instead.
class BudgetRun {
 public:
  // What the policies of the next point start from; null: nothing.
  [[nodiscard]] const std::vector<PolicyOutcome>* smaller_budget() const {
    return best_ ? &best_->result.policies : nullptr;
  }
  // The next point, or the best of those before it.
  [[nodiscard]] SimulatedPoint better(SimulatedPoint point);

 private:
  std::optional<SimulatedPoint> best_;
};

}  // namespace tidemark
