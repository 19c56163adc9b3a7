// Points that differ in nothing but the budget of a plan: with more memory their plan is never
// worse.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/core/units.hpp"
#include "scenarios/studies/detailed_point.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

// Returns the figures of the policy that solves for a budget, if there is one.
[[nodiscard]] std::optional<PlanFigures> plan_of(const PointResult& point);
void set_plan(PointResult& point, const PlanFigures& plan);
// Keeps the proven bound, and its budget, of `asked` in a point whose plan is one for less memory.
void keep_bound(PointResult& point, const std::optional<PlanFigures>& asked);

// Returns the documents of a sweep, by index, in runs to be simulated one after the other: a run
// has all that agree but for the bytes that one policy of checkpoint placement gets as its budget,
// smallest first. Every other document is a run of its own. Runs and their members keep the order
// of the first.
[[nodiscard]] std::vector<std::vector<std::size_t>> budget_runs(std::span<const Value> documents);

// Finds these runs from documents that come one by one.
class BudgetRuns {
 public:
  void add(Value document);
  // Returns the runs; called once, after the last document.
  [[nodiscard]] std::vector<std::vector<std::size_t>> take();

 private:
  using Member = std::pair<Bytes, std::size_t>;  // a document's budget and index

  std::vector<std::vector<Member>> runs_;
  std::map<std::string, std::size_t> known_;  // run by the key on which its documents agree
  std::size_t documents_ = 0;
};

// Runs the points of budget_runs() one by one: each gets the decisions of the best previous one,
// and where that is better than its own result, it is taken instead.
class BudgetRun {
 public:
  // Returns the outcomes from which the policies of the next point start; null: none.
  [[nodiscard]] const std::vector<PolicyOutcome>* smaller_budget() const {
    return best_ ? &best_->result.policies : nullptr;
  }
  // Returns the next point, or the best of those before it.
  [[nodiscard]] SimulatedPoint better(SimulatedPoint point);

 private:
  std::optional<SimulatedPoint> best_;
};

}  // namespace tidemark
