// Ranges of numbers that a document may give.
#pragma once

#include <limits>

namespace tidemark {

// The values that a number may take, both ends included unless said otherwise. Sizes are compared
// in bytes, durations in seconds, rates in bytes or operations per second.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_excluded = false;
};
[[nodiscard]] constexpr Range at_least(double low) {
  return {.low = low};
}
[[nodiscard]] constexpr Range between(double low, double high) {
  return {.low = low, .high = high};
}
[[nodiscard]] constexpr Range above(double low) {
  return {.low = low, .low_excluded = true};
}

}  // namespace tidemark
