// Conversion of a floating-point number to an integer, defined for every number.
#pragma once

#include <cstdint>
#include <limits>

namespace tidemark {

// Returns the number without its fraction; the nearest integer of 64 bits beyond them, 0 for NaN.
[[nodiscard]] constexpr std::int64_t saturated(double number) {
  constexpr double kEnd = 0x1p63;  // the first number that is too large
  if (number >= kEnd) return std::numeric_limits<std::int64_t>::max();
  if (number < -kEnd) return std::numeric_limits<std::int64_t>::min();
  return number == number ? static_cast<std::int64_t>(number) : 0;
}

}  // namespace tidemark
