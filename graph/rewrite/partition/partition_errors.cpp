#include "graph/rewrite/partition/partition_errors.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace tidemark {

std::string nearest_divisors(std::int64_t of, std::int64_t wanted) {
  std::int64_t below = std::clamp<std::int64_t>(wanted, 1, of);
  while (of % below != 0)
    --below;
  std::int64_t above = std::max<std::int64_t>(wanted, 1);
  while (above < of && of % above != 0)
    ++above;
  return above <= of && above != below ? fmt::format("{} or {}", below, above)
                                       : fmt::format("{}", below);
}

std::string nearest_divisors(std::int64_t of, std::int64_t and_of, std::int64_t wanted) {
  return nearest_divisors(and_of == 0 ? of : std::gcd(of, and_of), wanted);
}

std::string nearest_multiples(std::int64_t step, std::int64_t wanted) {
  const std::int64_t below = wanted / step * step;
  return below > 0 ? fmt::format("{} or {}", below, below + step) : fmt::format("{}", step);
}

std::string does_not_divide(std::int64_t count, std::string_view what, int ranks) {
  return fmt::format("{} {} do not divide over {} ranks", count, what, ranks);
}

}  // namespace tidemark
