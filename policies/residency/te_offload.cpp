#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/entries.hpp"
#include "policies/residency/prefetch.hpp"

namespace tidemark {
namespace te_offload_detail {
namespace {

// The first n of L layers move; at most L - n activation sets are on the device at any time.
//
//   L = 5, n = 3    F0  F1  F2  F3  F4 | B4  B3  B2  B1  B0
//   d2h                 <0> <1> <2>    |
//   freed before            0   1      |            layer j before the forward of L - n + j
//   h2d                                |     <2> <1> <0>     layer j when the backward of
//                                                               L - 1 - n + j begins
//
// A layer's copies out are queued when the next layer begins. Layer j's tensors are allocated again
// when layer L - n + j has been freed, so the peak is (L - n) T for layers that save T each. With n
// = L - 1 a layer's copies have only its own compute to hide behind.
class TransformerEngineOffload final : public PrefetchingPolicy {
 public:
  TransformerEngineOffload(Prefetch prefetch, int layers, SmallestMoved smallest)
      : PrefetchingPolicy(prefetch), layers_(layers), smallest_(smallest) {}
  [[nodiscard]] std::string_view name() const override { return "te_offload"; }
  [[nodiscard]] bool looks_at_capacity() const override { return false; }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    const int all = context.graph.blocks;
    if (all < 2) {
      throw UserError({}, "policies.te_offload",
                      fmt::format("moves the first of several repeated blocks, and the model has "
                                  "{}; torchtune_offload moves single tensors",
                                  all == 0 ? "none" : "only one"));
    }
    if (layers_ >= all) {
      throw UserError({}, "policies.te_offload.layers",
                      fmt::format("the model has {} repeated blocks, the last of which stays on "
                                  "the device; give at most {}",
                                  all, all - 1));
    }
    const std::vector<std::vector<BlockSpan>> spans = block_spans(context);
    std::vector<Departure> departures;
    for (const SavedGap& gap : saved_gaps(context, smallest_)) {
      if (gap.block == kNoBlock || gap.block >= layers_) continue;
      const auto at = [&](int layer) {
        return spans[gap.micro_batch][static_cast<std::size_t>(layer)];
      };
      const Position queued = at(gap.block + 1).forward_begin;
      departures.push_back({.gap = gap,
                            .release_at = at(all - layers_ + gap.block).forward_begin,
                            .fetch_at = at(all - 1 - layers_ + gap.block).backward_begin,
                            .copy_at = queued > gap.release ? queued : Position()});
    }
    place_fetches(context, plan, fetching(), departures);
    decide_offloads(context, departures, plan);
  }

 private:
  int layers_;
  SmallestMoved smallest_;
};

}  // namespace
}  // namespace te_offload_detail

const PolicyEntry& te_offload_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "te_offload",
      .kind = "residency",
      .summary =
          "copy the saved tensors of the first `layers` blocks to page-locked host memory; of L "
          "blocks at most L - `layers` are on the device",
      .source = "NVIDIA/TransformerEngine pytorch/cpu_offload.py, version 2",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const int layers = d.required<int>("layers", at_least(1));
        const Prefetch prefetch = decode_prefetch(d);
        const SmallestMoved smallest = decode_smallest(d, Elements(std::int64_t{256} * 1024));
        d.finish();
        return std::make_unique<te_offload_detail::TransformerEngineOffload>(prefetch, layers,
                                                                             smallest);
      }};
  return kEntry;
}

}  // namespace tidemark
