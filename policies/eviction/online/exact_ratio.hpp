// Quotients of integers rounded once, as Python's int / int: scores are compared for equality.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace tidemark {

__extension__ using Wide = unsigned __int128;

// Divides to the nearest double, ties to even; x / 0 is +infinity. The denominator is below 2^126.
[[nodiscard]] inline double exact_ratio(std::int64_t numerator, Wide denominator) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (denominator == 0) return std::numeric_limits<double>::infinity();
  if (numerator <= kExact && denominator <= static_cast<Wide>(kExact)) {
    return static_cast<double>(numerator) / static_cast<double>(denominator);
  }
  if (numerator == 0) return 0;
  Wide n = static_cast<Wide>(numerator);
  Wide d = denominator;
  int exponent = 0;
  for (; n < d; n <<= 1)
    --exponent;
  for (; n >> 1 >= d; d <<= 1)
    ++exponent;
  // d <= n < 2d: one binary digit a step, 53 of them and one more to round by.
  std::uint64_t digits = 0;
  for (int i = 0; i < 54; ++i) {
    digits <<= 1;
    if (n >= d) {
      digits |= 1;
      n -= d;
    }
    n <<= 1;
  }
  const bool above = n != 0;  // whether the digits left out are not all 0
  const bool half = (digits & 1) != 0;
  digits >>= 1;
  if (half && (above || (digits & 1) != 0)) ++digits;
  return std::ldexp(static_cast<double>(digits), exponent - 52);
}

}  // namespace tidemark
