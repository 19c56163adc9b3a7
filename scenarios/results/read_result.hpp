// An entry of the result document as the point it came from.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/step/simulate.hpp"

namespace tidemark {

// Everything that result_document() has of a point, so that writing what was read gives the same
// text; what it has not (schedules, instructions, passes) is left empty. Throws
// nlohmann::json::exception or UserError where `entry` is no such entry.
[[nodiscard]] PointResult read_point(const nlohmann::ordered_json& entry);

}  // namespace tidemark
