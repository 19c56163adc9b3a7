#include <algorithm>

#include "policies/residency/entries.hpp"
#include "policies/residency/prefetch.hpp"

namespace tidemark {
namespace torchtune_offload_detail {
namespace {

// Copies every tensor that autograd saves to the host when it is saved; `in_flight` of them
// (torchtune: max_fwd_stash_size) keep their device memory, and compute waits for the oldest copy
// when another is saved.
//
//   compute   pack 0  pack 1 ... pack 5 (waits for copy 0, frees tensor 0)  pack 6 ...
//
// In backward the copy back is issued when the node that needs it is launched; since the host runs
// ahead and the copy stream only waits for the node before the previous one, it overlaps with the
// previous node. The first backward node uses the tensors that it finds in the stash; the rest of
// the stash is freed after it. The output head is excluded: here everything after the last block.
// Simplified: a tensor that several nodes save moves once, and both directions have their own
// stream (they meet only at the start of backward).
class TorchtuneOffload final : public PrefetchingPolicy {
 public:
  TorchtuneOffload(Prefetch prefetch, int in_flight, bool streams, Bytes min_bytes)
      : PrefetchingPolicy(prefetch),
        in_flight_(in_flight),
        streams_(streams),
        min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "torchtune_offload"; }
  [[nodiscard]] bool looks_at_capacity() const override { return false; }

  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override {
    const std::vector<std::vector<BlockSpan>> spans = block_spans(context);
    std::vector<std::vector<SavedGap>> micro_batches(spans.size());
    for (const SavedGap& gap : saved_gaps(context, min_bytes_)) {
      const bool head = gap.block == kNoBlock && !spans[gap.micro_batch].empty() &&
                        gap.from > spans[gap.micro_batch].back().forward_end;
      if (!head) micro_batches[gap.micro_batch].push_back(gap);
    }
    std::vector<Departure> departures;
    for (const std::vector<SavedGap>& saved : micro_batches)
      depart(context, saved, departures);
    if (streams_) place_fetches(context, plan, fetching(), departures);
    decide_offloads(context, departures, plan);
  }

 private:
  void depart(const PolicyContext& context, const std::vector<SavedGap>& saved,
              std::vector<Departure>& departures) const {
    if (saved.empty()) return;
    std::vector<Position> uses;  // operators of backward, at which a node brings tensors back
    uses.reserve(saved.size());
    for (const SavedGap& gap : saved)
      uses.push_back(gap.to);
    std::sort(uses.begin(), uses.end());
    uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
    const auto flight = static_cast<std::size_t>(streams_ ? in_flight_ : 0);
    for (std::size_t i = 0; i < saved.size(); ++i) {
      Departure d{.gap = saved[i], .release_at = {}, .fetch_at = saved[i].to};
      if (i + flight < saved.size()) {
        d.release_at = Position(saved[i + flight].release.value + 1);
      } else if (saved[i].to == uses.front()) {
        continue;  // still in the stash when the first node needs it
      } else {
        d.release_at = next_node(context, uses.front());
      }
      const auto use = std::lower_bound(uses.begin(), uses.end(), saved[i].to);
      if (streams_ && use != uses.begin()) {
        d.fetch_at = std::max(*(use - 1), Position(d.release_at.value + 1));
      }
      departures.push_back(d);
    }
  }
  // Returns the first operator after `p` that belongs to another autograd node.
  static Position next_node(const PolicyContext& context, Position p) {
    Position next(p.value + 1);
    while (next < context.order.at.end_id() && context.op_at(p).node.valid() &&
           context.op_at(next).node == context.op_at(p).node) {
      next = Position(next.value + 1);
    }
    return next;
  }

  int in_flight_;
  bool streams_;
  Bytes min_bytes_;
};

}  // namespace
}  // namespace torchtune_offload_detail

const PolicyEntry& torchtune_offload_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "torchtune_offload",
      .kind = "residency",
      .summary =
          "copy every saved tensor of at least `min_bytes` to page-locked host memory, `in_flight` "
          "at a time; without `streams` compute waits for each copy",
      .source = "pytorch/torchtune training/_activation_offloading.py, OffloadActivations",
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const Prefetch prefetch = decode_prefetch(d);
        const int in_flight = d.optional<int>("in_flight", 5, at_least(1));
        const bool streams = d.optional<bool>("streams", true);
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kKiB);
        d.finish();
        return std::make_unique<torchtune_offload_detail::TorchtuneOffload>(prefetch, in_flight,
                                                                            streams, min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
