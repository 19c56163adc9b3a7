#include "policies/residency/swap_window.hpp"

#include <algorithm>

namespace tidemark {

Departure swap_window(const PolicyContext& context, const std::vector<Duration>& starts,
                      const MemoryCurve& curve, const SavedGap& gap, Bytes budget) {
  const auto position_of = [](auto iterator, auto begin) {
    return Position(static_cast<std::size_t>(iterator - begin));
  };
  const Position first(gap.release.value + 1);
  const Position release_at =
      std::max(curve.first_above(first, gap.to, budget), std::min(first, gap.to));
  const Duration trigger = starts[gap.to.index()] - copy_in_time(context, gap.bytes);
  const auto later = std::upper_bound(starts.begin(), starts.end(), trigger);
  const Position latest =
      later == starts.begin() ? Position(0U) : position_of(later - 1, starts.begin());
  // The place where the curve, which still counts the value, stays within the budget until its use.
  const Position room = curve.earliest_fit(release_at, gap.to, Bytes(0), budget);
  const Position next = std::min(Position(release_at.value + 1), gap.to);
  return {.gap = gap,
          .release_at = release_at,
          .fetch_at = std::clamp(std::max(latest, room), next, gap.to)};
}

Duration free_time(const PolicyContext& context, const std::vector<Duration>& starts,
                   const SavedGap& gap) {
  const Duration evicted = starts[gap.release.index() + 1];
  return starts[gap.to.index()] - copy_in_time(context, gap.bytes) - evicted -
         copy_out_time(context, gap.bytes);
}

void take_off(const Departure& departure, MemoryCurve& curve) {
  curve.add(departure.release_at, departure.fetch_at, -departure.gap.bytes);
}

}  // namespace tidemark
