#include "policies/residency/checkpoint_every.hpp"

#include <unordered_set>

namespace tidemark {
namespace {

// Keeps the input of every `period` consecutive blocks and recomputes the whole segment between, as
// torch.utils.checkpoint does around a group of modules.
//
//   forward    [ block 0 | block 1 ][ block 2 | block 3 ] head
//   period 2   x0 kept    -          x2 kept    -
class CheckpointEvery final : public ResidencyPolicy {
 public:
  explicit CheckpointEvery(int period) : period_(period) {}
  [[nodiscard]] std::string_view name() const override { return "checkpoint_every"; }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    for (const BlockRegion& segment : forward_segments(context, period_)) {
      recompute_segment(context, segment, plan);
    }
  }

 private:
  int period_;
};

}  // namespace

void recompute_segment(const PolicyContext& context, const BlockRegion& segment,
                       ResidencyPlan& plan) {
  // Only what the segment itself makes is dropped: its input stays, or another policy moves it.
  std::unordered_set<StorageId> made;
  std::vector<GapId> dropped;
  for (Position p : segment.forward) {
    const std::span<const Touch> touches = context.graph.touches_of(context.order.at[p].op);
    for (std::size_t i = 0; i < touches.size(); ++i) {
      if (touches[i].access == Access::kCreate) made.insert(touches[i].storage);
      const GapId id = context.live.after(p, i);
      const Gap& gap = context.live.gaps[id];
      if (!gap.open() || context.op_at(gap.to).phase != Phase::kBackward) continue;
      if (!made.contains(gap.storage)) continue;
      dropped.push_back(id);
    }
  }
  if (dropped.empty()) return;
  RecomputeGroup group;
  for (Position p : segment.forward) {
    if (!writes_persistent(context.graph, context.order.at[p].op)) group.recipe.push_back(p);
  }
  const GroupId id = plan.add_group(std::move(group));
  for (GapId gap : dropped)
    plan.decide(gap, Recompute{.group = id});
}

const PolicyEntry& checkpoint_every_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "checkpoint_every",
      .seam = "residency",
      .summary = "recompute every `period` consecutive blocks from the input of the first",
      .source = "Chen et al. 2016 (arXiv 1604.06174); torch.utils.checkpoint",
      .decode = [](const Decoder& d) -> AnyPolicy {
        const int period = d.optional<int>("period", 1, at_least(1));
        d.finish();
        return std::make_unique<CheckpointEvery>(period);
      }};
  return kEntry;
}

}  // namespace tidemark
