#include "scenarios/studies/shared_runs.hpp"

#include <algorithm>

#include "policies/plan/entry.hpp"

namespace tidemark {
namespace shared_runs_detail {
namespace {

// Whether the step never lacked memory, so that no larger device would change it.
bool lacked_nothing(const PointResult& point) {
  return point.status == PointStatus::kFits && point.stages.empty() && point.run.retries == 0 &&
         point.run.ooms == 0 && point.run.evictions == 0 && !point.convergence.retried &&
         point.smallest_capacity < point.capacity;
}

// Returns the most that any of the steps reserves, those beyond the configured ones included.
Bytes most_reserved(const PointResult& point) {
  Bytes most = point.run.most_reserved;
  for (const StepReserved& step : point.convergence.steps)
    most = std::max(most, step.peak);
  return most;
}

}  // namespace
}  // namespace shared_runs_detail

std::string shared_run_key(const Scenario& scenario) {
  const bool policy_looks =
      std::any_of(scenario.policies.begin(), scenario.policies.end(),
                  [](const AnyPolicy& policy) { return policy_of(policy).looks_at_capacity(); });
  const bool alike = !policy_looks && scenario.allocator->needs_what_it_reserves() &&
                     !scenario.training.model.generation && !scenario.training.load;
  return alike ? scenario.run_key : std::string();
}

std::optional<PointResult> SharedRuns::find(const std::string& key,
                                            const Scenario& scenario) const {
  const PointResult* known = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto run = runs_.find(key);
    if (run == runs_.end()) return std::nullopt;
    known = run->second;
  }
  const Bytes capacity = scenario.device.hbm.capacity;
  const Bytes needed = shared_runs_detail::most_reserved(*known);
  if (needed > scenario.allocator->allowed(capacity, known->context)) return std::nullopt;
  if (known->smallest_capacity >= capacity) return std::nullopt;
  PointResult point = *known;
  point.name = scenario.name;
  point.capacity = capacity;
  return point;
}

void SharedRuns::keep(const std::string& key, const PointResult& point) {
  if (key.empty() || !shared_runs_detail::lacked_nothing(point)) return;
  const std::lock_guard lock(mutex_);
  runs_.try_emplace(key, &point);
}

}  // namespace tidemark
