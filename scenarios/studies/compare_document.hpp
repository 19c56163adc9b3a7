// Writes a comparison for scripts and spreadsheets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "scenarios/studies/compare.hpp"

namespace tidemark {

// Returns the result document of its points, in their order. Each has `compare` next to its own
// fields: {"budget", "overhead", "planned_overhead", "lower_bound_overhead", "gap", "pareto"}, null
// where there is none; the plan's own peak, cost and bound are in `policies`. The document has
// `base`: {"peak_live", "step"} without any policy.
[[nodiscard]] nlohmann::ordered_json compare_document(const Comparison& comparison);

// Writes one row per point. Columns: policies, budget, status, planned_peak, peak_live,
// peak_reserved, device_used, step_seconds, recompute_seconds, overhead, plan_status, class, cost,
// base_cost, lower_bound, gap, pareto, reason.
void write_compare_csv(std::ostream& out, const Comparison& comparison);

// The least overhead of each budget in bytes by proven bounds, where all plans are of one class.
struct LeastOverheads {
  std::string schedule_class;  // empty: no bounds to show
  std::map<Bytes, double> by_budget;
};
[[nodiscard]] LeastOverheads least_overheads(const Comparison& comparison);
// Returns why the point is not as asked for; empty if it is.
[[nodiscard]] std::string reason_of(const ComparePoint& point);

}  // namespace tidemark
