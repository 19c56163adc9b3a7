// The scores by which online rematerialization chooses whom to evict (Kirisame et al. 2021,
// section 4 and appendix C; MSPS of Peng et al. 2020). One definition for logs and for devices.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "policies/eviction/online/evicted_costs.hpp"

namespace tidemark {

// The least score is evicted. stale = clock - last access; A, D = cost of the evicted ancestors and
// descendants that are reached through evicted storages.
enum class EvictionHeuristic : std::uint8_t {
  kLru,       // last access
  kSize,      // 1 / size
  kDtrLocal,  // cost / (size * stale)
  kMsps,      // (cost + A) / size
  kDtr,       // (cost + A + D) / (size * stale)
  kDtrEq,     // as dtr, over equivalence classes instead of A and D
  kDtrFull,   // as dtr, over the union of A and D, stale since its latest access
  kRandom,    // any, by a fixed seed
};
[[nodiscard]] std::span<const std::string_view> eviction_heuristic_names();  // in this order
[[nodiscard]] std::span<const std::string_view> deallocation_mode_names();

[[nodiscard]] Neighbourhood neighbourhood_of(EvictionHeuristic heuristic);

// Whether the score depends on costs. Otherwise the order is that of eviction_key().
[[nodiscard]] constexpr bool ranks_by_cost(EvictionHeuristic heuristic) {
  return heuristic != EvictionHeuristic::kLru && heuristic != EvictionHeuristic::kSize &&
         heuristic != EvictionHeuristic::kRandom;
}

// Returns the key that orders storages of equal cost: the least goes first.
[[nodiscard]] constexpr std::int64_t eviction_key(EvictionHeuristic heuristic, std::int64_t bytes,
                                                  std::int64_t last_access) {
  switch (heuristic) {
    case EvictionHeuristic::kSize:
      return -bytes;
    case EvictionHeuristic::kMsps:
    case EvictionHeuristic::kRandom:
      return 0;
    default:
      return last_access;
  }
}

// Returns the divisor of the cost beside the size.
[[nodiscard]] constexpr std::int64_t eviction_staleness(EvictionHeuristic heuristic,
                                                        std::int64_t clock,
                                                        std::int64_t last_access) {
  return heuristic == EvictionHeuristic::kMsps ? 1 : clock - last_access;
}

// Xorshift64 (Marsaglia 2003).
class EvictionDice {
 public:
  EvictionDice() = default;
  explicit EvictionDice(std::uint64_t seed) : state_(kDefault ^ seed) {
    if (state_ == 0) state_ = kDefault;
  }
  [[nodiscard]] std::size_t below(std::size_t count) {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_ % count;
  }

 private:
  static constexpr std::uint64_t kDefault = 0x9E3779B97F4A7C15;
  std::uint64_t state_ = kDefault;
};

// Finds the candidate of least score. Costs are walked no further than a score may still win.
class VictimSearch {
 public:
  static constexpr std::uint32_t kNoVictim = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();
  // bytes / cost of what costs nothing: above all others, even when those are stale permanently.
  static constexpr float kFreeSlope = 0x1p127F;

  struct Candidate {
    std::uint32_t storage = 0;
    std::int64_t bytes = 0;
    std::uint64_t sequence = 0;  // place in the pool: decides between equal scores
  };

  VictimSearch(EvictionHeuristic heuristic, EvictedCosts& costs)
      : heuristic_(heuristic), costs_(costs) {}

  void begin(std::int64_t clock) {
    clock_ = clock;
    best_ = std::numeric_limits<double>::infinity();
    victim_ = kNoVictim;
  }
  // Walks the candidate's neighbourhood as far as `most` storages. False: that was too little to
  // tell whether it wins.
  bool weigh(const Candidate& candidate, std::size_t most);
  // Returns the storage of least score among those weighed; kNoVictim when none is finite.
  [[nodiscard]] std::uint32_t victim() const { return victim_; }
  // Returns the threshold of 1 / score: a storage with a bound below it cannot win any more.
  [[nodiscard]] double threshold() const {
    return best_ == 0 ? static_cast<double>(kFreeSlope) / 2 : (1 - kMargin) / best_;
  }

 private:
  static constexpr double kMargin = 1e-9;  // far above the rounding of the products

  EvictionHeuristic heuristic_;
  EvictedCosts& costs_;
  std::int64_t clock_ = 0;
  double best_ = 0;
  std::uint32_t victim_ = kNoVictim;
  std::uint64_t victim_sequence_ = 0;
};

}  // namespace tidemark
