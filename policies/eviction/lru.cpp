#include "policies/eviction/lru.hpp"

#include <algorithm>

namespace tidemark {
namespace {

// Evicts what has not been touched for the longest time; the lowest block among equals.
class LeastRecentlyUsed final : public EvictionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "lru"; }
  [[nodiscard]] std::size_t choose(const MemoryView& view) override {
    const auto oldest = std::min_element(view.evictable.begin(), view.evictable.end(),
                                         [](const EvictableBlock& a, const EvictableBlock& b) {
                                           return a.last_access < b.last_access;
                                         });
    return static_cast<std::size_t>(oldest - view.evictable.begin());
  }
};

constexpr std::string_view kHeuristics[] = {"lru"};

}  // namespace

const PolicyEntry& eviction_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "eviction",
      .seam = "eviction",
      .summary =
          "when an allocation fails, drop blocks and compute them again when they are needed",
      .source = "Kirisame et al. 2021, Dynamic Tensor Rematerialization (arXiv 2006.09616)",
      .decode = [](const Decoder& d) -> AnyPolicy {
        (void)d.optional_word("heuristic", kHeuristics, "lru");
        d.finish();
        return std::make_unique<LeastRecentlyUsed>();
      }};
  return kEntry;
}

}  // namespace tidemark
