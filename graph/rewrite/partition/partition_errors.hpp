// Sentences about sizes that do not divide.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tidemark {

// Returns "4 or 8": the divisors of `of` next to `wanted`.
[[nodiscard]] std::string nearest_divisors(std::int64_t of, std::int64_t wanted);
// Returns the same of both numbers; `and_of` 0: of the first alone.
[[nodiscard]] std::string nearest_divisors(std::int64_t of, std::int64_t and_of,
                                           std::int64_t wanted);
// Returns "1536 or 2048": the multiples of `step` next to `wanted`.
[[nodiscard]] std::string nearest_multiples(std::int64_t step, std::int64_t wanted);
// Returns "12 heads do not divide over 8 ranks".
[[nodiscard]] std::string does_not_divide(std::int64_t count, std::string_view what, int ranks);

}  // namespace tidemark
