#include <algorithm>
#include <cmath>

#include "policies/residency/entries.hpp"
#include "policies/residency/prefetch.hpp"

namespace tidemark {
namespace offload_activations_detail {
namespace {

// Moves saved activations of the repeated blocks to page-locked host memory and fetches them back
// before the backward of their block. Tensors of the last block stay: they are needed at once.
//
//   compute   F0    F1    F2    ...   B2    B1    B0
//   d2h          <F0 > <F1 >
//   h2d                            <F1 > <F0 >    prefetch 1: in the backward of block b + 1
//
// A block's device memory returns when compute has waited for its copy at the end of the next
// block's forward, so that at most two blocks are in flight (as TransformerEngine's cpu_offload
// does; https://github.com/NVIDIA/TransformerEngine, pytorch/cpu_offload.py).
class OffloadActivations final : public PrefetchingPolicy {
 public:
  OffloadActivations(Prefetch prefetch, double fraction, Bytes min_bytes)
      : PrefetchingPolicy(prefetch), fraction_(fraction), min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "offload_activations"; }
  [[nodiscard]] bool looks_at_capacity() const override { return false; }
  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override;

 private:
  double fraction_;
  Bytes min_bytes_;
};

void OffloadActivations::plan_movement(const PolicyContext& context, ResidencyPlan& plan) const {
  const std::vector<std::vector<BlockSpan>> spans = block_spans(context);
  const int last = context.graph.blocks - 1;
  // The first blocks have the longest gaps, so a fraction offloads these.
  const int offloaded_blocks = static_cast<int>(std::lround(fraction_ * static_cast<double>(last)));
  std::vector<Departure> departures;
  for (const SavedGap& gap : saved_gaps(context, min_bytes_)) {
    if (gap.block == kNoBlock || gap.block >= offloaded_blocks) continue;
    const auto next = static_cast<std::size_t>(std::min(gap.block + 1, last));
    const Position release_at = spans[gap.micro_batch][next].forward_end;
    if (!release_at.valid()) continue;
    departures.push_back({.gap = gap, .release_at = release_at, .fetch_at = {}});
  }
  place_fetches(context, plan, fetching(), departures);
  decide_offloads(context, departures, plan);
}

}  // namespace
}  // namespace offload_activations_detail

const PolicyEntry& offload_activations_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "offload_activations",
      .kind = "residency",
      .summary =
          "copy saved activations of the blocks to page-locked host memory and fetch them back "
          "`prefetch` blocks ahead, or as its other rules say (on_demand, 8 operators, "
          "just_in_time, earliest within `budget`)",
      .source = "NVIDIA TransformerEngine cpu_offload; prefetch distance as in Megatron-Core",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const Prefetch prefetch = decode_prefetch(d, "1");
        const double fraction = d.optional<double>("fraction", 1.0, between(0, 1));
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kMiB);
        d.finish();
        return std::make_unique<offload_activations_detail::OffloadActivations>(prefetch, fraction,
                                                                                min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
