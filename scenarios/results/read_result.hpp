// Reads an entry of the result document back as the point that it came from.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "sim/step/simulate.hpp"

namespace tidemark {

// Reads everything that result_document() has of a point, so that writing it again gives the same
// text; other members (schedules, instructions, passes) are left empty. Throws
// nlohmann::json::exception or UserError where `entry` is no such entry.
[[nodiscard]] PointResult read_point(const nlohmann::ordered_json& entry);

}  // namespace tidemark
