// Parts of the result document about time and cost.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/step/simulate.hpp"

namespace tidemark {

// Returns a count, which is kept as a floating-point number because it may be large: as an integer
// where a double is exact.
[[nodiscard]] nlohmann::ordered_json count_json(double value);

// Returns {"bound": {"compute", "memory", "launch"}, "host_gaps", "waits", "flops", "bytes",
// "model_flops_utilization", "hardware_flops_utilization", "classes": [...]}: seconds of the last
// step's kernels by what they wait for, and in which none runs.
[[nodiscard]] nlohmann::ordered_json breakdown_json(const PointResult& point);

// Reads what breakdown_json() and cost_json() write. Throw nlohmann's exceptions where it is not
// so.
void read_breakdown(const nlohmann::ordered_json& json, PointResult& point);
void read_cost(const nlohmann::ordered_json& json, StepCost& cost);

// Returns {"device_hours", "joules", "price", "price_per_sample"} of one step; null where the
// profile has no figure.
[[nodiscard]] nlohmann::ordered_json cost_json(const PointResult& point);

}  // namespace tidemark
