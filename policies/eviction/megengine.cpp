#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "policies/eviction/coop.hpp"
#include "policies/eviction/online/heuristic.hpp"

namespace tidemark {
namespace megengine_detail {
namespace {

// score = (neighbour cost + 1e-3) * 1.0001^restores
//         / ((size + free on both sides) / MiB * (now - last access + 1e-3))
// with times in milliseconds. The neighbour cost is that of the adjacent evicted allocations, each
// with its class; an allocation's own cost is not in it. The least is evicted, the first of equals.
// With sqrt_sampling the draws are our own. Not modelled: eviction_threshold, above which MegEngine
// evicts before an allocation fails; a device of that capacity does the same.
class MegEngine final : public TrackedEviction {
 public:
  MegEngine(const EvictionSettings& settings, const MegEngineSettings& own)
      : TrackedEviction(settings, Neighbourhood::kClasses), own_(own) {}

  [[nodiscard]] std::unique_ptr<EvictionPolicy> copy() const override {
    return std::make_unique<MegEngine>(*this);
  }
  [[nodiscard]] std::string_view name() const override { return "megengine"; }
  [[nodiscard]] bool looks_at_addresses() const override { return true; }
  void begin(const EvictionProgram& program) override {
    TrackedEviction::begin(program);
    dice_ = EvictionDice(own_.seed);
  }
  [[nodiscard]] std::vector<std::size_t> choose(const MemoryView& view) override {
    candidates_.clear();
    for (std::size_t i = 0; i < view.evictable.size(); ++i) {
      if (view.evictable[i].bytes >= own_.smallest) candidates_.push_back(i);
    }
    if (own_.sqrt_sampling) sample();
    std::vector<std::size_t> victim;
    double best = std::numeric_limits<double>::infinity();
    for (const std::size_t i : candidates_) {
      const double score = score_of(view.evictable[i], view.now);
      if (!victim.empty() && score >= best) continue;
      best = score;
      victim.assign(1, i);
    }
    return victim;
  }

 private:
  // Keeps the square root of the number of candidates, rounded up.
  void sample() {
    std::size_t kept = 0;
    while (kept * kept < candidates_.size())
      ++kept;
    for (std::size_t i = 0; i < kept; ++i)
      std::swap(candidates_[i], candidates_[i + dice_.below(candidates_.size() - i)]);
    candidates_.resize(kept);
    std::sort(candidates_.begin(), candidates_.end());
  }
  [[nodiscard]] double score_of(const EvictableAllocation& allocation, Duration now) {
    constexpr double kNanosecondsPerUnit = 1e6;
    constexpr double kEpsilon = 1e-3;           // added to both times
    constexpr double kRestorePenalty = 1.0001;  // per recomputation
    const auto cost = static_cast<double>(costs().adjacent_cost(allocation.allocation.value));
    const auto stale = static_cast<double>((now - allocation.last_access).count());
    const auto bytes = static_cast<double>((allocation.bytes + allocation.free_neighbours).count);
    return (cost / kNanosecondsPerUnit + kEpsilon) *
           std::pow(kRestorePenalty, allocation.restores) /
           (bytes / static_cast<double>(kMiB.count) * (stale / kNanosecondsPerUnit + kEpsilon));
  }

  MegEngineSettings own_;
  EvictionDice dice_;
  std::vector<std::size_t> candidates_;
};

}  // namespace
}  // namespace megengine_detail

std::unique_ptr<EvictionPolicy> make_megengine(const EvictionSettings& settings,
                                               const MegEngineSettings& own) {
  return std::make_unique<megengine_detail::MegEngine>(settings, own);
}

}  // namespace tidemark
