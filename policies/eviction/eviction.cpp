#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "policies/eviction/coop.hpp"
#include "policies/eviction/entries.hpp"
#include "policies/eviction/online/heuristic.hpp"

namespace tidemark {
namespace eviction_detail {
namespace {

// Evicts the allocation of the least score by a heuristic.
class ScoredEviction final : public TrackedEviction {
 public:
  ScoredEviction(const EvictionSettings& settings, EvictionHeuristic heuristic, std::uint64_t seed)
      : TrackedEviction(settings, neighbourhood_of(heuristic)),
        heuristic_(heuristic),
        seed_(seed) {}

  [[nodiscard]] std::unique_ptr<EvictionPolicy> copy() const override {
    return std::make_unique<ScoredEviction>(*this);
  }
  [[nodiscard]] std::string_view name() const override {
    return eviction_heuristic_names()[static_cast<std::size_t>(heuristic_)];
  }
  void begin(const EvictionProgram& program) override {
    TrackedEviction::begin(program);
    dice_ = EvictionDice(seed_);
  }
  [[nodiscard]] std::vector<std::size_t> choose(const MemoryView& view) override {
    const std::span<const EvictableAllocation> allocations = view.evictable;
    if (heuristic_ == EvictionHeuristic::kRandom) return {dice_.below(allocations.size())};
    if (!ranks_by_cost(heuristic_)) return {least_key(allocations)};
    VictimSearch search(heuristic_, costs());
    search.begin(view.now.count());
    // Long walks wait until there is a score that can cut them short.
    constexpr std::size_t kFirstWalk = 64;
    const auto candidate = [&](std::size_t i) {
      return VictimSearch::Candidate{allocations[i].allocation.value, allocations[i].bytes.count,
                                     i};
    };
    std::vector<std::size_t> postponed;
    for (std::size_t i = 0; i < allocations.size(); ++i) {
      if (!search.weigh(candidate(i), kFirstWalk)) postponed.push_back(i);
    }
    for (const std::size_t i : postponed)
      search.weigh(candidate(i), VictimSearch::kWhole);
    const std::uint32_t victim = search.victim();
    costs().changed().clear();
    if (victim == VictimSearch::kNoVictim) return {allocations.size() - 1};
    const auto at = std::find_if(
        allocations.begin(), allocations.end(),
        [victim](const EvictableAllocation& b) { return b.allocation.value == victim; });
    return {static_cast<std::size_t>(at - allocations.begin())};
  }

 private:
  // Returns the last of equals, as in a replay of a log.
  [[nodiscard]] std::size_t least_key(std::span<const EvictableAllocation> allocations) {
    const auto key = [this](const EvictableAllocation& b) {
      return eviction_key(heuristic_, b.bytes.count, costs().last_access(b.allocation.value));
    };
    std::size_t least = 0;
    for (std::size_t i = 1; i < allocations.size(); ++i) {
      if (key(allocations[i]) <= key(allocations[least])) least = i;
    }
    return least;
  }

  EvictionHeuristic heuristic_;
  std::uint64_t seed_;
  EvictionDice dice_;
};

constexpr std::array<std::string_view, 2> kAddressAware{"megengine", "coop"};

std::unique_ptr<EvictionPolicy> decode_eviction(const Decoder& d) {
  const auto scored = eviction_heuristic_names();
  std::vector<std::string_view> words(scored.begin(), scored.end());
  words.insert(words.end(), kAddressAware.begin(), kAddressAware.end());
  const std::string heuristic = d.optional_word("heuristic", words, "lru");
  const auto modes = deallocation_mode_names();
  const std::string mode = d.optional_word("mode", modes, "eager");
  const EvictionSettings settings{
      .mode = static_cast<DeallocationMode>(std::find(modes.begin(), modes.end(), mode) -
                                            modes.begin()),
      .thrash_factor = d.optional<double>("thrash_factor", 10, at_least(1))};
  const auto seed = d.optional<std::int64_t>("seed", 0, at_least(0));
  const auto smallest = d.optional<Bytes>("min_bytes", kMiB, at_least(0));
  const auto samples = d.optional<bool>("sqrt_sampling", false);
  d.finish();
  // A default that is spelled out, as `tidemark describe` does, is no setting of the user.
  const auto refuse = [&](std::string_view key, std::string_view reader) {
    d.fail_at(key, fmt::format("heuristic '{}' does not read it, only {} does; leave it out",
                               heuristic, reader));
  };
  const bool megengine = heuristic == "megengine";
  if (seed != 0 && heuristic != "random" && !(megengine && samples)) {
    refuse("seed", "'random', or 'megengine' with sqrt_sampling,");
  }
  if (smallest != kMiB && !megengine) refuse("min_bytes", "'megengine'");
  if (samples && !megengine) refuse("sqrt_sampling", "'megengine'");
  if (megengine) {
    return make_megengine(
        settings,
        {.smallest = smallest, .sqrt_sampling = samples, .seed = static_cast<std::uint64_t>(seed)});
  }
  if (heuristic == "coop") return make_coop(settings);
  const auto at = std::find(scored.begin(), scored.end(), heuristic) - scored.begin();
  return std::make_unique<ScoredEviction>(settings, static_cast<EvictionHeuristic>(at),
                                          static_cast<std::uint64_t>(seed));
}

}  // namespace
}  // namespace eviction_detail

const PolicyEntry& eviction_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "eviction",
      .kind = "eviction",
      .summary = "when an allocation fails, drop tensors and recompute them when they are needed",
      .source =
          "Kirisame et al. 2021, Dynamic Tensor Rematerialization (arXiv 2006.09616); "
          "MegEngine; Zhang et al. 2023, Coop",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        return eviction_detail::decode_eviction(d);
      }};
  return kEntry;
}

}  // namespace tidemark
