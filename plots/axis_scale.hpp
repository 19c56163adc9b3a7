// Round numbers along an axis, and their unit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tidemark {

// The quantity of an axis; its values are bytes, seconds, or shares (0.1 is 10 %).
enum class AxisUnit { kNumber, kBytes, kSeconds, kPercent };

struct AxisTicks {
  std::vector<double> at;           // positions inside the range in the values' unit, ascending
  std::vector<std::string> labels;  // labels without the unit
  std::string unit;                 // "GiB", "ms", "%"; empty for kNumber
};

// Returns the smallest of the round steps 1, 2, 2.5 and 5 times a power of ten that is at least
// `least`.
[[nodiscard]] double round_step(double least);

// Returns at most `at_most` round numbers between `begin` and `end`, in the largest unit in which
// the end is at least 1. None where the range is empty or not finite.
[[nodiscard]] AxisTicks round_ticks(double begin, double end, AxisUnit unit, std::size_t at_most);

}  // namespace tidemark
