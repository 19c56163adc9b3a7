#include "sim/memory/torch/roundup_intervals.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "graph/core/scalar_text.hpp"

namespace tidemark {

bool is_power_of_two(std::int64_t value) {
  return value > 0 && std::has_single_bit(static_cast<std::uint64_t>(value));
}

void check_roundup_division(std::int64_t divisions, bool zero_allowed) {
  if (is_power_of_two(divisions) || (zero_allowed && divisions == 0)) return;
  refuse(fmt::format("roundup_power2_divisions: divisions must be a power of two{}, found {}",
                     zero_allowed ? " or 0" : "", divisions));
}

double check_collection_threshold(double value) {
  if (!(value > 0 && value < 1)) {
    refuse(
        fmt::format("garbage_collection_threshold: must be above 0 and below 1, found {}", value));
  }
  return value;
}

void RoundupIntervals::set(std::int64_t mebibytes, std::int64_t divisions) {
  if (!is_power_of_two(mebibytes)) {
    refuse(fmt::format(
        "roundup_power2_divisions: intervals must be a power of two in MiB, found {}", mebibytes));
  }
  check_roundup_division(divisions, true);
  const int exponent = std::countr_zero(static_cast<std::uint64_t>(mebibytes));
  last_ = std::min<std::size_t>(static_cast<std::size_t>(exponent), kRoundupIntervals - 1);
  if (first_) std::fill_n(divisions_.begin(), last_, divisions);
  first_ = false;
  divisions_[last_] = divisions;
}

void RoundupIntervals::set_rest(std::int64_t divisions) {
  check_roundup_division(divisions, true);
  std::fill(divisions_.begin() + static_cast<std::ptrdiff_t>(last_), divisions_.end(), divisions);
}

}  // namespace tidemark
