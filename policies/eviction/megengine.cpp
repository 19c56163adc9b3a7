#include <cmath>
#include <limits>

#include "policies/eviction/coop.hpp"

namespace tidemark {
namespace {

// score = (neighbour cost + 1e-3) * 1.0001^restores
//         / ((size + free on both sides) / MiB * (now - last access + 1e-3))
// with times in milliseconds. The neighbour cost is that of the adjacent evicted blocks, each with
// its class; a block's own cost is not in it. The least is evicted, the first of equals. Not
// modelled: the threshold above which MegEngine evicts before an allocation fails, and its sampling
// of candidates.
class MegEngine final : public TrackedEviction {
 public:
  MegEngine(const EvictionSettings& settings, Bytes smallest)
      : TrackedEviction(settings, Neighbourhood::kClasses), smallest_(smallest) {}

  [[nodiscard]] std::string_view name() const override { return "megengine"; }
  [[nodiscard]] bool looks_at_addresses() const override { return true; }
  [[nodiscard]] std::vector<std::size_t> choose(const MemoryView& view) override {
    std::vector<std::size_t> victim;
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < view.evictable.size(); ++i) {
      const EvictableBlock& block = view.evictable[i];
      if (block.bytes < smallest_) continue;
      const double score = score_of(block, view.now);
      if (!victim.empty() && score >= best) continue;
      best = score;
      victim.assign(1, i);
    }
    return victim;
  }

 private:
  [[nodiscard]] double score_of(const EvictableBlock& block, Duration now) {
    constexpr double kNanosecondsPerUnit = 1e6;
    constexpr double kEpsilon = 1e-3;           // of both times
    constexpr double kRestorePenalty = 1.0001;  // per restoration
    const auto cost = static_cast<double>(costs().adjacent_cost(block.block.value));
    const auto stale = static_cast<double>((now - block.last_access).count());
    const auto bytes = static_cast<double>((block.bytes + block.free_neighbours).count);
    return (cost / kNanosecondsPerUnit + kEpsilon) * std::pow(kRestorePenalty, block.restores) /
           (bytes / static_cast<double>(kMiB.count) * (stale / kNanosecondsPerUnit + kEpsilon));
  }

  Bytes smallest_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_megengine(const EvictionSettings& settings, Bytes smallest) {
  return std::make_unique<MegEngine>(settings, smallest);
}

}  // namespace tidemark
