#include <algorithm>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/entries.hpp"
#include "policies/residency/prefetch.hpp"

namespace tidemark {
namespace stronghold_detail {
namespace {

// A window of w consecutive blocks moves over the model: everything that forward has saved behind
// it is on the host.
//
//   w = 2    F0  F1  F2  F3  F4 | B4  B3  B2  B1  B0
//   d2h         <0> <1> <2>     |            block b is freed before the forward of b + w
//   h2d                         | <2> <1> <0>    and fetched when the backward of b + w begins
//
// w is the smallest with which the compute of w blocks covers the copy of the next one, in both
// directions. STRONGHOLD moves parameters and optimizer states this way; here the rule moves saved
// activations.
class Stronghold final : public PrefetchingPolicy {
 public:
  Stronghold(Prefetch prefetch, int window, Bytes min_bytes)
      : PrefetchingPolicy(prefetch), window_(window), min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "stronghold"; }
  [[nodiscard]] bool looks_at_capacity() const override { return false; }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    const std::vector<SavedGap> saved = saved_gaps(context, min_bytes_);
    const std::vector<std::vector<BlockSpan>> spans = block_spans(context);
    const int blocks = context.graph.blocks;
    std::vector<Departure> departures;
    for (std::size_t micro_batch = 0; micro_batch < spans.size(); ++micro_batch) {
      const int window = window_ > 0
                             ? std::min(window_, blocks)
                             : smallest_window(context, spans[micro_batch], saved, micro_batch);
      for (const SavedGap& gap : saved) {
        if (gap.micro_batch != micro_batch || gap.block == kNoBlock) continue;
        const int next = gap.block + window;  // the block whose turn moves this one
        if (next >= blocks) continue;
        const BlockSpan& edge = spans[micro_batch][static_cast<std::size_t>(next)];
        departures.push_back(
            {.gap = gap, .release_at = edge.forward_begin, .fetch_at = edge.backward_begin});
      }
    }
    place_fetches(context, plan, fetching(), departures);
    decide_offloads(context, departures, plan);
  }

 private:
  static int smallest_window(const PolicyContext& context, const std::vector<BlockSpan>& spans,
                             const std::vector<SavedGap>& saved, std::size_t micro_batch) {
    const std::vector<Duration> starts = predicted_starts(context);
    const std::size_t blocks = spans.size();
    std::vector<Duration> out(blocks);
    std::vector<Duration> in(blocks);
    for (const SavedGap& gap : saved) {
      if (gap.micro_batch != micro_batch || gap.block == kNoBlock) continue;
      out[static_cast<std::size_t>(gap.block)] += copy_out_time(context, gap.bytes);
      in[static_cast<std::size_t>(gap.block)] += copy_in_time(context, gap.bytes);
    }
    const auto time = [&](Position first, Position last) {
      return first.valid() ? starts[last.index() + 1] - starts[first.index()] : Duration(0);
    };
    for (std::size_t window = 1; window < blocks; ++window) {
      bool covered = true;
      for (std::size_t b = 0; covered && b + window < blocks; ++b) {
        Duration forward{};
        Duration backward{};
        for (std::size_t i = b + 1; i <= b + window; ++i) {
          // Block b leaves while the w - 1 blocks after it run, and the one that evicts it waits;
          // it comes back while the w blocks from its edge on go backward.
          if (i < b + window) forward += time(spans[i].forward_begin, spans[i].forward_end);
          backward += time(spans[i].backward_begin, spans[i].backward_end);
        }
        covered = forward >= out[b] && backward >= in[b];
      }
      if (covered) return static_cast<int>(window);
    }
    return static_cast<int>(blocks);
  }

  int window_;  // 0: the smallest that hides the copies
  Bytes min_bytes_;
};

}  // namespace
}  // namespace stronghold_detail

const PolicyEntry& stronghold_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "stronghold",
      .kind = "residency",
      .summary =
          "keep the saved tensors of `window` consecutive blocks on the device; 0 is the smallest "
          "window whose compute hides the next copy",
      .source = "Sun et al. 2022, STRONGHOLD (SC'22): the window rule, applied to activations",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const int window = d.optional<int>("window", 0, at_least(0));
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kMiB);
        const Prefetch prefetch = decode_prefetch(d);
        d.finish();
        return std::make_unique<stronghold_detail::Stronghold>(prefetch, window, min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
