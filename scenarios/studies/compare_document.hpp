// A comparison for scripts and spreadsheets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "scenarios/studies/compare.hpp"

namespace tidemark {

// The result document of its points, in their order. Each has `compare` beside its own fields:
// {"budget", "overhead", "planned_overhead", "lower_bound_overhead", "gap", "pareto"}, null where
// there is none; the plan's own peak, cost and bound are in `policies`. The document has `base`:
// {"peak_live", "step"} without any policy.
[[nodiscard]] nlohmann::ordered_json compare_document(const Comparison& comparison);

// One row per point. Columns: policies, budget, status, planned_peak, peak_live, peak_reserved,
// device_used, step_seconds, recompute_seconds, overhead, plan_status, class, cost, base_cost,
// lower_bound, gap, pareto, reason.
void write_compare_csv(std::ostream& out, const Comparison& comparison);

// What the plan itself costs beyond computing everything once, which is the time of its kernels.
[[nodiscard]] std::optional<double> planned_overhead(const ComparePoint& point);
// The overhead that the best proven bound leaves as the least, if there is one.
[[nodiscard]] std::optional<double> least_overhead(const ComparePoint& point);
// What is proven to be the least overhead of each budget, where all plans are of one class: by
// budget in bytes.
struct LeastOverheads {
  std::string schedule_class;  // empty: there is nothing to say
  std::map<std::int64_t, double> by_budget;
};
[[nodiscard]] LeastOverheads least_overheads(const Comparison& comparison);
// Why the point is not as asked for; empty if it is.
[[nodiscard]] std::string reason_of(const ComparePoint& point);

}  // namespace tidemark
