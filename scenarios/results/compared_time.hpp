// The time by which points are compared: of a step where all do the same work in one, else of a
// sample or of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sim/step/point_result.hpp"

namespace tidemark {

enum class WorkUnit : std::uint8_t { kStep, kSample, kThousandTokens };

// Returns the least unit that is fair to all points that could be built: a step, where all train on
// as many samples and tokens; a sample, where samples have one length; else a thousand tokens. A
// sample, too, where some have no tokens.
[[nodiscard]] WorkUnit compared_unit(std::span<const PointResult> points);
// Returns "a step", "a sample" or "1000 tokens".
[[nodiscard]] std::string_view name_of(WorkUnit unit);
// Returns the seconds that a point takes for one unit; none where it does no such work.
[[nodiscard]] std::optional<double> seconds_per(WorkUnit unit, const PointResult& point);

}  // namespace tidemark
