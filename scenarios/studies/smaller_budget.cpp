#include "scenarios/studies/smaller_budget.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "graph/core/errors.hpp"
#include "policies/plan_policies.hpp"
#include "scenarios/results/document_json.hpp"

namespace tidemark {
namespace smaller_budget_detail {
namespace {

// Takes the budget of the one planned policy that has any out of `document`.
std::optional<Bytes> take_budget(Value& document) {
  Value* list = document.find("policies");
  if (list == nullptr) return std::nullopt;
  std::optional<Bytes> budget;
  for (Value& item : list->items) {
    if (!item.is_mapping() || item.entries.size() != 1) continue;
    Value::Entry& policy = item.entries.front();
    Value* value = policy.value.find("budget");
    if (value == nullptr || find_plan_policy(policy.key) == nullptr) continue;
    if (budget || !value->is_scalar()) return std::nullopt;
    try {
      budget = parse_bytes(value->scalar);
    } catch (const std::invalid_argument&) {  // a share, or a mistake that is reported elsewhere
      return std::nullopt;
    }
    *value = Value{};
  }
  return budget;
}

bool has_plan(const PointResult& point) {
  const bool ran = point.status == PointStatus::kFits || point.status == PointStatus::kOutOfMemory;
  return ran && plan_of(point).has_value();
}

}  // namespace
}  // namespace smaller_budget_detail

std::optional<PlanFigures> plan_of(const PointResult& point) {
  for (const PolicyOutcome& outcome : point.policies) {
    if (outcome.plan) return outcome.plan;
  }
  return std::nullopt;
}

void set_plan(PointResult& point, const PlanFigures& plan) {
  for (PolicyOutcome& outcome : point.policies) {
    if (outcome.plan) outcome.plan = plan;
  }
}

void keep_bound(PointResult& point, const std::optional<PlanFigures>& asked) {
  std::optional<PlanFigures> plan = plan_of(point);
  if (!plan || !asked) return;
  plan->lower_bound = asked->lower_bound;
  plan->budget = asked->budget;
  // A plan at the minimum for less memory need not be at the minimum for more.
  const bool least = plan->lower_bound && plan->cost <= *plan->lower_bound;
  if (plan->status == PlanStatus::kOptimal && !least) {
    plan->status = PlanStatus::kFeasible;
  }
  set_plan(point, *plan);
}

void BudgetRuns::add(Value document) {
  const std::size_t i = documents_++;
  const std::optional<Bytes> budget = smaller_budget_detail::take_budget(document);
  const auto [at, is_new] =
      budget ? known_.emplace(as_json(document), runs_.size()) : std::pair(known_.end(), true);
  if (is_new) runs_.emplace_back();
  std::vector<Member>& run = budget ? runs_[at->second] : runs_.back();
  run.emplace_back(budget.value_or(Bytes(0)), i);
}

std::vector<std::vector<std::size_t>> BudgetRuns::take() {
  std::vector<std::vector<std::size_t>> indices;
  for (std::vector<Member>& run : runs_) {
    std::sort(run.begin(), run.end());
    std::vector<std::size_t>& list = indices.emplace_back();
    for (const auto& [budget, index] : run)
      list.push_back(index);
  }
  return indices;
}

std::vector<std::vector<std::size_t>> budget_runs(std::span<const Value> documents) {
  BudgetRuns runs;
  for (const Value& document : documents)
    runs.add(document);
  return runs.take();
}

SimulatedPoint BudgetRun::better(SimulatedPoint point) {
  const std::optional<PlanFigures> plan = plan_of(point.result);
  if (point.result.status == PointStatus::kError || !plan) return point;
  const bool keeps = smaller_budget_detail::has_plan(point.result);
  const Bytes allowed = std::max(plan->budget, point.result.run.live.bytes);
  if (best_ && best_->result.run.live.bytes <= allowed &&
      (!keeps || best_->result.run.step < point.result.run.step)) {
    point = *best_;
    keep_bound(point.result, plan);
  }
  if (smaller_budget_detail::has_plan(point.result)) best_ = point;
  return point;
}

}  // namespace tidemark
