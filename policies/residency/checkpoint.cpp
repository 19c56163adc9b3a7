#include "policies/residency/checkpoint.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/entries.hpp"

namespace tidemark {
namespace checkpoint_detail {
namespace {

// Checkpoints single blocks: those listed, the first few, or every k-th.
class Checkpoint final : public ResidencyPolicy {
 public:
  struct Choice {
    std::vector<std::int64_t> layers;
    int first = 0;
    int every_other = 0;  // blocks 0, k, 2k, ...; 0: not chosen this way
  };
  Checkpoint(Choice choice, CheckpointCode code) : choice_(std::move(choice)), code_(code) {}
  [[nodiscard]] std::string_view name() const override { return "checkpoint"; }
  [[nodiscard]] bool is_reentrant() const override { return code_ == CheckpointCode::kReentrant; }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    check(context.graph.blocks);
    for (const BlockRegion& block : block_segments(context, 1)) {
      if (is_chosen(block.first_block)) recompute_segment(context, block, plan, code_);
    }
  }

 private:
  void check(int blocks) const {
    if (choice_.layers.empty() && choice_.first == 0 && choice_.every_other == 0) {
      throw UserError({}, "policies.checkpoint",
                      "chooses no layer; give layers: [0, 5], first: k or every_other: k");
    }
    for (std::int64_t layer : choice_.layers) {
      if (layer < blocks) continue;
      throw UserError(
          {}, "policies.checkpoint.layers",
          fmt::format("the model has {} repeated blocks, counted from 0; there is no {}", blocks,
                      layer));
    }
  }
  [[nodiscard]] bool is_chosen(int block) const {
    if (choice_.every_other > 0) return block % choice_.every_other == 0;
    return block < choice_.first ||
           std::find(choice_.layers.begin(), choice_.layers.end(), block) != choice_.layers.end();
  }
  Choice choice_;
  CheckpointCode code_;
};

// torch.utils.checkpoint.checkpoint_sequential over the blocks: segments of floor(blocks /
// segments), the last of which takes the rest and is not checkpointed.
class CheckpointSequential final : public ResidencyPolicy {
 public:
  CheckpointSequential(int segments, CheckpointCode code) : segments_(segments), code_(code) {}
  [[nodiscard]] std::string_view name() const override { return "checkpoint_sequential"; }
  [[nodiscard]] bool is_reentrant() const override { return code_ == CheckpointCode::kReentrant; }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    const int size = context.graph.blocks / segments_;
    if (size == 0) {
      throw UserError({}, "policies.checkpoint_sequential.segments",
                      fmt::format("{} segments are more than the model has repeated blocks, {}",
                                  segments_, context.graph.blocks));
    }
    for (const BlockRegion& segment : block_segments(context, size)) {
      if (segment.first_block < size * (segments_ - 1)) {
        recompute_segment(context, segment, plan, code_);
      }
    }
  }

 private:
  int segments_;
  CheckpointCode code_;
};

// Storages that a segment reads and does not make: its input, or the gradients given to its
// backward.
class Boundary {
 public:
  explicit Boundary(const PolicyContext& context) : context_(context) {}

  void pass(Position p) {
    for (const Touch& touch : context_.graph.touches_of(context_.order.at[p].op)) {
      const Storage& storage = context_.graph.storages[touch.storage];
      if (storage.initial || storage.persistent) continue;
      if (touch.access == Access::kCreate) {
        made_.insert(touch.storage);
      } else if (!made_.contains(touch.storage) && seen_.insert(touch.storage).second) {
        given_.push_back(touch.storage);
      }
    }
  }
  [[nodiscard]] bool makes(StorageId storage) const { return made_.contains(storage); }
  [[nodiscard]] const std::vector<StorageId>& given() const { return given_; }

 private:
  const PolicyContext& context_;
  std::unordered_set<StorageId> made_;
  std::unordered_set<StorageId> seen_;
  std::vector<StorageId> given_;
};

// Keeps the variables that the frames of the reentrant function hold until its backward returns.
void keep_arguments(const PolicyContext& context, const BlockRegion& segment,
                    const Boundary& forward, RecomputeGroup& group) {
  const Position until = segment.backward.back();
  const auto keep = [&](StorageId storage) {
    group.kept.push_back({.storage = storage, .bytes = {}, .since = {}, .until = until});
  };
  for (StorageId input : forward.given())
    keep(input);
  // The output: storages that the segment's forward makes and later forward reads.
  std::unordered_set<StorageId> outputs;
  for (Position p : segment.forward) {
    const std::span<const Touch> touches = context.graph.touches_of(context.order.at[p].op);
    for (std::size_t i = 0; i < touches.size(); ++i) {
      const Gap& gap = context.live.gaps[context.live.after(p, i)];
      const bool leaves = gap.to.valid() && !gap.dead && gap.to > segment.forward.back() &&
                          context.op_at(gap.to).phase == Phase::kForward;
      if (leaves && forward.makes(gap.storage) && outputs.insert(gap.storage).second) {
        keep(gap.storage);
      }
    }
  }
  Boundary backward(context);
  for (Position p : segment.backward)
    backward.pass(p);
  for (StorageId storage : backward.given()) {
    if (context.graph.storages[storage].role == Role::kActivationGradient) keep(storage);
  }
}

}  // namespace
}  // namespace checkpoint_detail

void recompute_segment(const PolicyContext& context, const BlockRegion& segment,
                       ResidencyPlan& plan, CheckpointCode code) {
  // Only values that the segment itself makes are dropped: its input stays, or another policy moves
  // it.
  checkpoint_detail::Boundary forward(context);
  std::vector<GapId> dropped;
  Position last_use = segment.forward.front();
  for (Position p : segment.forward) {
    forward.pass(p);
    const std::span<const Touch> touches = context.graph.touches_of(context.order.at[p].op);
    for (std::size_t i = 0; i < touches.size(); ++i) {
      const GapId id = context.live.after(p, i);
      const Gap& gap = context.live.gaps[id];
      if (!gap.open() || context.op_at(gap.to).phase != Phase::kBackward) continue;
      if (!forward.makes(gap.storage)) continue;
      dropped.push_back(id);
      last_use = std::max(last_use, gap.to);
    }
  }
  if (dropped.empty()) return;
  RecomputeGroup group;
  for (Position p : segment.forward) {
    if (!writes_persistent(context.graph, context.order.at[p].op)) group.recipe.push_back(p);
  }
  const bool reentrant = code == CheckpointCode::kReentrant;
  group.in_hooks = !reentrant;
  if (context.graph.checkpoint_random_state > Bytes(0)) {
    group.kept.push_back({.storage = {},
                          .bytes = context.graph.checkpoint_random_state,
                          .since = segment.forward.front(),
                          .until = reentrant ? segment.loss_dropped : last_use});
  }
  if (reentrant && context.graph.has_frames && !segment.backward.empty()) {
    checkpoint_detail::keep_arguments(context, segment, forward, group);
  }
  const GroupId id = plan.add_group(std::move(group));
  for (GapId gap : dropped)
    plan.decide(gap, Recompute{.group = id});
}

CheckpointCode decode_checkpoint_code(const Decoder& d) {
  return d.optional<bool>("reentrant", true) ? CheckpointCode::kReentrant : CheckpointCode::kHooks;
}

const PolicyEntry& checkpoint_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "checkpoint",
      .kind = "residency",
      .summary =
          "recompute single blocks: `layers: [0, 5]`, the `first` k, or `every_other: k` for "
          "blocks 0, k, 2k; reentrant as torch.utils.checkpoint's use_reentrant",
      .source = kCheckpointSource,
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        checkpoint_detail::Checkpoint::Choice choice;
        choice.layers = d.list<std::int64_t>("layers", at_least(0));
        choice.first = d.optional<int>("first", 0, at_least(0));
        choice.every_other = d.optional<int>("every_other", 0, at_least(0));
        const CheckpointCode code = decode_checkpoint_code(d);
        d.finish();
        const int ways = static_cast<int>(d.has("layers")) + static_cast<int>(d.has("first")) +
                         static_cast<int>(d.has("every_other"));
        if (ways > 1) d.fail("give one of layers: [0, 5], first: k and every_other: k");
        return std::make_unique<checkpoint_detail::Checkpoint>(std::move(choice), code);
      }};
  return kEntry;
}

const PolicyEntry& checkpoint_sequential_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "checkpoint_sequential",
      .kind = "residency",
      .summary =
          "recompute `segments` - 1 equal segments of blocks; the last segment is kept, as "
          "torch.utils.checkpoint.checkpoint_sequential does",
      .source = kCheckpointSource,
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        const int segments = d.required<int>("segments", at_least(1));
        const CheckpointCode code = decode_checkpoint_code(d);
        d.finish();
        return std::make_unique<checkpoint_detail::CheckpointSequential>(segments, code);
      }};
  return kEntry;
}

}  // namespace tidemark
