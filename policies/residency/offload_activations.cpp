#include "policies/residency/offload_activations.hpp"

#include <algorithm>

namespace tidemark {
namespace {

// Moves saved activations of the repeated blocks to pinned host memory and fetches them back before
// the backward of their block. Tensors of the last block stay: they are needed at once.
//
//   compute   F0    F1    F2    ...   B2    B1    B0
//   d2h          <F0 > <F1 >
//   h2d                            <F1 > <F0 >          prefetch 1: during the backward of block
//   b+1
//
// A block's device memory returns when compute has waited for its copy at the end of the next
// block's forward, so that at most two blocks are in flight (as TransformerEngine's cpu_offload
// does; https://github.com/NVIDIA/TransformerEngine, pytorch/cpu_offload.py).
class OffloadActivations final : public ResidencyPolicy {
 public:
  OffloadActivations(int prefetch, double fraction, Bytes min_bytes)
      : prefetch_(prefetch), fraction_(fraction), min_bytes_(min_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "offload_activations"; }
  void plan_movement(const PolicyContext& context, ResidencyPlan& plan) const override;

 private:
  // Where one block of one micro-batch lies in the order.
  struct BlockSpan {
    Position forward_end;     // last position of its forward
    Position backward_begin;  // first position that works on its backward, recomputation included
  };
  using Spans = std::vector<BlockSpan>;  // by block

  [[nodiscard]] std::vector<Spans> spans(const PolicyContext& context) const;

  int prefetch_;
  double fraction_;
  Bytes min_bytes_;
};

std::size_t round_of(const PolicyContext& context, const Occurrence& o) {
  return static_cast<std::size_t>(o.step) * static_cast<std::size_t>(context.order.micro_batches) +
         o.micro_batch;
}

std::vector<OffloadActivations::Spans> OffloadActivations::spans(
    const PolicyContext& context) const {
  const std::size_t rounds = static_cast<std::size_t>(context.order.steps) *
                             static_cast<std::size_t>(context.order.micro_batches);
  std::vector<Spans> all(rounds, Spans(static_cast<std::size_t>(context.graph.blocks)));
  for (Position p : ids_of(context.order.at)) {
    const Occurrence& occurrence = context.order.at[p];
    const int block = context.block_at(p);
    if (block == kNoBlock) continue;
    BlockSpan& span = all[round_of(context, occurrence)][static_cast<std::size_t>(block)];
    const bool forward = context.op_at(p).phase == Phase::kForward && !occurrence.recompute;
    if (forward) {
      span.forward_end = p;
    } else if (!span.backward_begin.valid() && context.op_at(p).phase != Phase::kOptimizer) {
      span.backward_begin = p;
    }
  }
  return all;
}

void OffloadActivations::plan_movement(const PolicyContext& context, ResidencyPlan& plan) const {
  const std::vector<Spans> all = spans(context);
  const int last = context.graph.blocks - 1;
  // The first blocks have the longest gaps: a fraction offloads these.
  const int offloaded_blocks = static_cast<int>(fraction_ * static_cast<double>(last) + 0.5);
  PolicyOutcome& outcome = plan.outcomes().back();
  for (GapId id : ids_of(context.live.gaps)) {
    const Gap& gap = context.live.gaps[id];
    if (!gap.open()) continue;
    const Storage& storage = context.graph.storages[gap.storage];
    if (storage.initial || storage.persistent || storage.bytes < min_bytes_) continue;
    const Occurrence& from = context.order.at[gap.from];
    const Occurrence& to = context.order.at[gap.to];
    if (from.recompute || context.op_at(gap.from).phase != Phase::kForward) continue;
    if (!to.recompute && context.op_at(gap.to).phase != Phase::kBackward) continue;
    const int block = context.block_at(gap.from);
    if (block == kNoBlock || block >= offloaded_blocks) continue;
    const Spans& round = all[round_of(context, from)];
    const auto at = [&](int b) { return round[static_cast<std::size_t>(std::clamp(b, 0, last))]; };
    const Position release_at = at(block + 1).forward_end;
    // Fetch when the backward begins that lies `prefetch` blocks before the one that needs it.
    const int needed_by = std::max(context.block_at(gap.to), 0);
    Position fetch_at = prefetch_ == 0 ? gap.to : at(needed_by + prefetch_).backward_begin;
    if (!release_at.valid() || !fetch_at.valid()) continue;
    fetch_at = std::min(fetch_at, gap.to);
    if (release_at <= gap.release || fetch_at <= release_at) continue;  // too short to pay
    if (plan.decide(id, Offload{.fetch_at = fetch_at, .release_at = release_at})) {
      if (from.step + 1 == context.order.steps) outcome.offloaded += storage.bytes;
    }
  }
}

}  // namespace

const PolicyEntry& offload_activations_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "offload_activations",
      .seam = "residency",
      .summary =
          "copy saved activations of the blocks to pinned host memory and fetch them back "
          "`prefetch` blocks ahead",
      .source = "NVIDIA TransformerEngine cpu_offload; prefetch distance as in Megatron-Core",
      .decode = [](const Decoder& d) -> AnyPolicy {
        const int prefetch = d.optional<int>("prefetch", 1, at_least(0));
        const double fraction = d.optional<double>("fraction", 1.0, between(0, 1));
        const Bytes min_bytes = d.optional<Bytes>("min_bytes", kMiB);
        d.finish();
        return std::make_unique<OffloadActivations>(prefetch, fraction, min_bytes);
      }};
  return kEntry;
}

}  // namespace tidemark
