#include "policies/eviction/online/heuristic.hpp"

#include <array>

#include "policies/eviction/online/exact_ratio.hpp"

namespace tidemark {
namespace heuristic_detail {
namespace {

constexpr std::array<std::string_view, 8> kHeuristics{"lru", "size",   "dtr_local", "msps",
                                                      "dtr", "dtr_eq", "dtr_full",  "random"};
constexpr std::array<std::string_view, 3> kModes{"eager", "ignore", "banish"};

}  // namespace
}  // namespace heuristic_detail

std::span<const std::string_view> eviction_heuristic_names() {
  return heuristic_detail::kHeuristics;
}

std::span<const std::string_view> deallocation_mode_names() {
  return heuristic_detail::kModes;
}

Neighbourhood neighbourhood_of(EvictionHeuristic heuristic) {
  switch (heuristic) {
    case EvictionHeuristic::kMsps:
      return Neighbourhood::kAncestors;
    case EvictionHeuristic::kDtr:
      return Neighbourhood::kBoth;
    case EvictionHeuristic::kDtrEq:
      return Neighbourhood::kClasses;
    case EvictionHeuristic::kDtrFull:
      return Neighbourhood::kSet;
    default:
      return Neighbourhood::kNone;
  }
}

bool VictimSearch::weigh(const Candidate& candidate, std::size_t most) {
  const std::uint32_t s = candidate.storage;
  const std::int64_t bytes = candidate.bytes;
  const std::int64_t stale = eviction_staleness(heuristic_, clock_, costs_.last_access(s));
  const double unit = static_cast<double>(bytes) * static_cast<double>(stale);
  const double reach = best_ * unit * (1 + kMargin);  // costs above this cannot win
  if (static_cast<double>(costs_.lower_bound(s)) > reach) return true;
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  const std::int64_t limit = reach < 0x1p62 ? static_cast<std::int64_t>(reach) + 1 : kNoLimit;
  const EvictedCosts::Evaluation found = costs_.evaluate(s, limit, most);
  if (!found.exact) return found.cost > limit;
  const std::int64_t since = eviction_staleness(heuristic_, clock_, found.last_access);
  const double score = exact_ratio(found.cost, static_cast<Wide>(bytes) * static_cast<Wide>(since));
  if (score == std::numeric_limits<double>::infinity()) return true;
  const bool first = victim_ == kNoVictim;
  const bool later = first || candidate.sequence > victim_sequence_;
  // The scan of the reference keeps the last of equal scores, and ends at the first score of 0.
  if (first || score < best_ || (score == best_ && (score == 0 ? !later : later))) {
    best_ = score;
    victim_ = s;
    victim_sequence_ = candidate.sequence;
  }
  return true;
}

}  // namespace tidemark
