#include <algorithm>
#include <array>

#include "policies/residency/entries.hpp"
#include "policies/residency/prefetch.hpp"

namespace tidemark {
namespace offload_checkpoints_detail {
namespace {

// Moves the values that recomputation reads from forward: the inputs of checkpointed layers.
// Composes with any policy that recomputes.
//   simple   compute waits for the copy out at once, and for the copy in before recomputation.
//   smart    compute waits for the copy out at the end of the layer's forward; the last checkpoint
//            stays. Two device buffers: the copy in overlaps with the backward of the layer after
//            it; with one buffer it waits until that layer is done.
class OffloadCheckpoints final : public PrefetchingPolicy {
 public:
  OffloadCheckpoints(Prefetch prefetch, bool smart, int buffers, Bytes min_bytes)
      : PrefetchingPolicy(prefetch), smart_(smart), buffers_(buffers), min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "offload_checkpoints"; }
  [[nodiscard]] bool looks_at_capacity() const override { return false; }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    const std::vector<std::vector<BlockSpan>> spans = block_spans(context);
    std::vector<SavedGap> inputs;
    for (const SavedGap& gap : saved_gaps(context, min_bytes_)) {
      if (gap.block != kNoBlock && context.order.at[gap.to].recompute) inputs.push_back(gap);
    }
    std::vector<Departure> departures;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const SavedGap& gap = inputs[i];
      Departure d{.gap = gap, .release_at = Position(gap.release.value + 1), .fetch_at = gap.to};
      if (smart_) {
        // The next input of another recomputation.
        std::size_t next = i + 1;
        while (next < inputs.size() && inputs[next].micro_batch == gap.micro_batch &&
               inputs[next].needed_by <= gap.needed_by)
          ++next;
        if (next == inputs.size() || inputs[next].micro_batch != gap.micro_batch) continue;
        const Position end =
            spans[gap.micro_batch][static_cast<std::size_t>(gap.block)].forward_end;
        d.release_at = Position(std::max(end, gap.release).value + 1);
        if (buffers_ == 2) d.fetch_at = inputs[next].to;
      }
      departures.push_back(d);
    }
    place_fetches(context, plan, fetching(), departures);
    decide_offloads(context, departures, plan);
  }

 private:
  bool smart_;
  int buffers_;
  Bytes min_bytes_;
};

constexpr std::array<std::string_view, 2> kVariants{"smart", "simple"};

}  // namespace
}  // namespace offload_checkpoints_detail

const PolicyEntry& offload_checkpoints_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "offload_checkpoints",
      .kind = "residency",
      .summary =
          "copy the inputs of checkpointed blocks to page-locked host memory; use it together "
          "with a policy that recomputes, such as checkpoint_every",
      .source = "unslothai/unsloth-zoo gradient_checkpointing.py",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const bool smart =
            d.optional_word("variant", offload_checkpoints_detail::kVariants, "smart") == "smart";
        const int buffers = d.optional<int>("buffers", 2, between(1, 2));
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kMiB * 2);
        const Prefetch prefetch = decode_prefetch(d);
        d.finish();
        return std::make_unique<offload_checkpoints_detail::OffloadCheckpoints>(prefetch, smart,
                                                                                buffers, min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
