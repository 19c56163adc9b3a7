// Shows many points as a table, with the fastest and the one that needs the least memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cli/text/wording.hpp"

namespace tidemark {

// The end of a table of points: kVerdict names the fastest point and the one that needs the least
// memory; kNone leaves the conclusion to the caller.
enum class TableEnd : std::uint8_t { kVerdict, kNone };

// Returns a row per point in the order given: what it changes, whether it fits, memory, time,
// reason. Lines end with '\n'. Beyond `width` the reasons are wrapped.
[[nodiscard]] std::string points_table(std::span<const PointResult> points, bool colour,
                                       std::size_t width, TableEnd end = TableEnd::kVerdict);

}  // namespace tidemark
