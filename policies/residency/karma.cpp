#include <algorithm>

#include "policies/residency/checkpoint.hpp"
#include "policies/residency/entries.hpp"
#include "policies/residency/prefetch.hpp"
#include "policies/residency/within_budget.hpp"

namespace tidemark {
namespace karma_detail {
namespace {

// The first blocks leave, as few as let the predicted live bytes fit the budget: backward begins
// with the blocks that stay while earlier ones come back. A block whose copy back would make
// backward wait for longer than its forward takes is recomputed instead.
//
//   backward  B4  B3  | B2  [F1] B1 | B0          budget for two blocks
//   h2d       <2    > <0          >
class Karma final : public PrefetchingPolicy {
 public:
  Karma(Prefetch prefetch, Bytes min_bytes) : PrefetchingPolicy(prefetch), min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "karma"; }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    arrange_within(context, fetching().budget, plan, [&](Bytes budget, ResidencyPlan& tried) {
      Prefetch prefetch = fetching();
      prefetch.budget = budget;
      arrange(context, prefetch, tried);
    });
  }

 private:
  void arrange(const PolicyContext& context, const Prefetch& prefetch, ResidencyPlan& plan) const {
    std::vector<SavedGap> saved = saved_gaps(context, min_bytes_);
    std::erase_if(saved, [](const SavedGap& gap) { return gap.block == kNoBlock; });
    const std::vector<std::vector<BlockSpan>> spans = block_spans(context);
    const int leaving = leaving_blocks(context, plan, saved, spans, *prefetch.budget);
    if (leaving == 0) return;
    std::vector<std::vector<char>> again(spans.size());
    for (std::size_t micro_batch = 0; micro_batch < spans.size(); ++micro_batch)
      again[micro_batch] = recomputed(context, saved, spans[micro_batch], micro_batch, leaving);
    for (const BlockRegion& block : block_segments(context, 1)) {
      const std::size_t micro_batch = static_cast<std::size_t>(block.step) *
                                          static_cast<std::size_t>(context.order.micro_batches) +
                                      static_cast<std::size_t>(block.micro_batch);
      if (block.first_block < leaving &&
          again[micro_batch][static_cast<std::size_t>(block.first_block)] != 0) {
        recompute_segment(context, block, plan);
      }
    }
    std::vector<Departure> departures;
    for (const SavedGap& gap : saved) {
      const auto block = static_cast<std::size_t>(gap.block);
      if (gap.block >= leaving || again[gap.micro_batch][block] != 0) continue;
      departures.push_back(
          {.gap = gap,
           .release_at = Position(spans[gap.micro_batch][block + 1].forward_end.value + 1),
           .fetch_at = {}});
    }
    place_fetches(context, plan, prefetch, departures);
    decide_offloads(context, departures, plan);
  }

  // Returns how many of the first blocks do not fit; the last one always stays.
  static int leaving_blocks(const PolicyContext& context, const ResidencyPlan& plan,
                            const std::vector<SavedGap>& saved,
                            const std::vector<std::vector<BlockSpan>>& spans, Bytes budget) {
    MemoryCurve curve(context, plan);
    int leaving = 0;
    while (curve.peak() > budget && leaving + 1 < context.graph.blocks) {
      for (const SavedGap& gap : saved) {
        if (gap.block != leaving || plan.decided(gap.id)) continue;
        const Position end =
            spans[gap.micro_batch][static_cast<std::size_t>(leaving) + 1].forward_end;
        const Position freed_from(std::max(end, gap.release).value + 1);
        curve.add(std::min(freed_from, gap.to), gap.to, -gap.bytes);
      }
      ++leaving;
    }
    return leaving;
  }

  // Returns which of the leaving blocks of one micro-batch are recomputed.
  static std::vector<char> recomputed(const PolicyContext& context,
                                      const std::vector<SavedGap>& saved,
                                      const std::vector<BlockSpan>& spans, std::size_t micro_batch,
                                      int leaving) {
    const std::vector<Duration> starts = predicted_starts(context);
    std::vector<Duration> copies(spans.size());
    for (const SavedGap& gap : saved) {
      if (gap.micro_batch == micro_batch) {
        copies[static_cast<std::size_t>(gap.block)] += copy_in_time(context, gap.bytes);
      }
    }
    std::vector<char> again(spans.size(), 0);
    if (!spans.back().backward_begin.valid()) return again;
    Duration link = starts[spans.back().backward_begin.index()];
    Duration late{};  // delay of backward behind its prediction
    for (auto b = static_cast<std::size_t>(leaving); b-- > 0;) {
      if (!spans[b].backward_begin.valid() || !spans[b].forward_begin.valid()) continue;
      const Duration needed = starts[spans[b].backward_begin.index()] + late;
      const Duration stall = std::max(link + copies[b] - needed, Duration(0));
      const Duration forward =
          starts[spans[b].forward_end.index() + 1] - starts[spans[b].forward_begin.index()];
      again[b] = static_cast<char>(stall > forward);
      late += std::min(stall, forward);
      if (again[b] == 0) link += copies[b];
    }
    return again;
  }

  Bytes min_bytes_;
};

}  // namespace
}  // namespace karma_detail

const PolicyEntry& karma_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "karma",
      .kind = "residency",
      .summary =
          "move the saved tensors of the first blocks, as many as the `budget` demands, and "
          "recompute those blocks whose copy back would take longer",
      .source = "Wahib et al. 2020, KARMA (arXiv 2008.11421)",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const Prefetch prefetch = decode_prefetch(d, "earliest");
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kKiB);
        d.finish();
        return std::make_unique<karma_detail::Karma>(prefetch, min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
