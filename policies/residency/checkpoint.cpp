#include "policies/residency/checkpoint.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/residency/entries.hpp"
#include "policies/residency/unpacked.hpp"

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
  Checkpoint(Choice choice, CheckpointOptions options)
      : choice_(std::move(choice)), options_(options) {}
  [[nodiscard]] std::string_view name() const override { return "checkpoint"; }
  [[nodiscard]] bool decides_by_structure() const override { return true; }
  [[nodiscard]] std::vector<BlockRange> reentrant_segments(int blocks) const override {
    std::vector<BlockRange> segments;
    for (int block = 0; block < blocks && options_.code == CheckpointCode::kReentrant; ++block) {
      if (is_chosen(block)) segments.push_back({block, block + 1});
    }
    return segments;
  }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    check(context.graph.blocks);
    for (const BlockRegion& block : block_segments(context, 1)) {
      if (is_chosen(block.first_block)) recompute_segment(context, block, plan, options_);
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
  CheckpointOptions options_;
};

// torch.utils.checkpoint.checkpoint_sequential over the blocks: segments of floor(blocks /
// segments), the last of which takes the rest and is not checkpointed.
class CheckpointSequential final : public ResidencyPolicy {
 public:
  CheckpointSequential(int segments, CheckpointOptions options)
      : segments_(segments), options_(options) {}
  [[nodiscard]] std::string_view name() const override { return "checkpoint_sequential"; }
  [[nodiscard]] bool decides_by_structure() const override { return true; }
  [[nodiscard]] std::vector<BlockRange> reentrant_segments(int blocks) const override {
    if (options_.code != CheckpointCode::kReentrant || blocks < segments_) return {};
    const int size = blocks / segments_;
    return segments_of(size * (segments_ - 1), size);
  }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    const int size = context.graph.blocks / segments_;
    if (size == 0) {
      throw UserError({}, "policies.checkpoint_sequential.segments",
                      fmt::format("{} segments are more than the model has repeated blocks, {}",
                                  segments_, context.graph.blocks));
    }
    for (const BlockRegion& segment : block_segments(context, size)) {
      if (segment.first_block < size * (segments_ - 1)) {
        recompute_segment(context, segment, plan, options_);
      }
    }
  }

 private:
  int segments_;
  CheckpointOptions options_;
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

bool is_in(const std::vector<Position>& part, Position p) {
  return std::binary_search(part.begin(), part.end(), p);
}

// The gaps that close when the segment's backward reads a value that the segment makes.
struct ClosedByBackward {
  std::vector<GapId> direct;      // begin in the segment's forward
  std::vector<GapId> read_later;  // begin where something after the segment reads the value as well
  Position first_use;
};

// Adds those of one value, whose first gap is given.
void add_gaps_of_value(const PolicyContext& context, const BlockRegion& segment, GapId first,
                       ClosedByBackward& found) {
  for (GapId id = first;; id = GapId(id.value + 1)) {
    const Gap& gap = context.live.gaps[id];
    if (gap.dead || !gap.to.valid()) return;
    if (!gap.open() || context.op_at(gap.to).phase != Phase::kBackward) continue;
    const bool direct = is_in(segment.forward, gap.from);
    const bool later = is_in(segment.backward, gap.to) && !is_in(segment.backward, gap.from);
    if (!direct && !later) continue;
    (direct ? found.direct : found.read_later).push_back(id);
    found.first_use = found.first_use.valid() ? std::min(found.first_use, gap.to) : gap.to;
  }
}

ClosedByBackward closed_by_backward(const PolicyContext& context, const BlockRegion& segment) {
  ClosedByBackward found;
  for (Position p : segment.forward) {
    const std::span<const Touch> touches = context.graph.touches_of(context.order.at[p].op);
    for (std::size_t i = 0; i < touches.size(); ++i) {
      const Storage& storage = context.graph.storages[touches[i].storage];
      if (touches[i].access != Access::kCreate || storage.initial || storage.persistent) continue;
      add_gaps_of_value(context, segment, context.live.after(p, i), found);
    }
  }
  return found;
}

// Returns the operator before which the segment is recomputed. The reentrant function does so
// before any operator of the segment's backward, hooks when the first node of autograd unpacks
// anything, though that be a weight: before the node's first operator.
Position place_of_recomputation(const PolicyContext& context, const BlockRegion& segment,
                                Position first_use, CheckpointCode code) {
  auto place = std::lower_bound(segment.backward.begin(), segment.backward.end(), first_use);
  if (place == segment.backward.end() || *place != first_use) return first_use;
  if (code == CheckpointCode::kReentrant) return segment.backward.front();
  const std::vector<Position> unpacks = unpacked_in_backward(context, segment);
  if (!unpacks.empty() && unpacks.front() < first_use)
    place = std::lower_bound(segment.backward.begin(), place, unpacks.front());
  const NodeId node = context.op_at(*place).node;
  auto begin = place;
  while (node.valid() && begin != segment.backward.begin() &&
         context.op_at(*std::prev(begin)).node == node) {
    --begin;
  }
  return *begin;
}

struct Dropped {
  std::vector<GapId> gaps;
  Position issue_at;  // the segment is recomputed before this operator
};

// A gap that a later reader opens (a layer on top of a ReLU) is not dropped if the value still has
// to be there when the segment is recomputed.
Dropped dropped_gaps(const PolicyContext& context, const BlockRegion& segment,
                     CheckpointCode code) {
  ClosedByBackward found = closed_by_backward(context, segment);
  if (!found.first_use.valid()) return {};
  Dropped dropped{.gaps = std::move(found.direct),
                  .issue_at = place_of_recomputation(context, segment, found.first_use, code)};
  for (GapId id : found.read_later) {
    if (context.live.gaps[id].release < dropped.issue_at) dropped.gaps.push_back(id);
  }
  return dropped;
}

// The place in the segment's forward behind which hooks need nothing. The recomputation ends when
// autograd saves the segment's last tensor, be it a weight: an operator's operands before its
// kernel runs, which is then left out, results after it.
std::size_t end_of_saving(const PolicyContext& context, const BlockRegion& segment,
                          const std::vector<GapId>& dropped) {
  std::unordered_map<NodeId, std::unordered_set<StorageId>> needed;  // by a node's backward
  for (Position p : segment.backward) {
    const OperatorId op = context.order.at[p].op;
    if (!context.graph.operators[op].node.valid()) continue;
    for (const Touch& touch : context.graph.touches_of(op))
      needed[context.graph.operators[op].node].insert(touch.storage);
  }
  std::unordered_set<StorageId> recomputed;
  for (GapId id : dropped)
    recomputed.insert(context.live.gaps[id].storage);
  for (std::size_t k = segment.forward.size(); k-- > 0;) {
    const OperatorId op = context.order.at[segment.forward[k]].op;
    const auto saved = needed.find(context.graph.operators[op].node);
    bool operand = false;
    for (const Touch& touch : context.graph.touches_of(op)) {
      const bool is_saved = saved != needed.end() && saved->second.contains(touch.storage);
      const bool makes = touch.access != Access::kRead;
      if (makes && (is_saved || recomputed.contains(touch.storage))) return k + 1;
      operand = operand || is_saved;
    }
    if (operand) return k;
  }
  return 0;
}

// Returns the operators of the segment's forward that are recomputed.
std::vector<Position> recipe_of(const PolicyContext& context, const BlockRegion& segment,
                                const std::vector<GapId>& dropped, bool stops_early) {
  const std::size_t end =
      stops_early ? end_of_saving(context, segment, dropped) : segment.forward.size();
  std::vector<Position> recipe;
  for (std::size_t k = 0; k < end; ++k) {
    const Position p = segment.forward[k];
    if (!writes_persistent(context.graph, context.order.at[p].op)) recipe.push_back(p);
  }
  return recipe;
}

}  // namespace
}  // namespace checkpoint_detail

void recompute_segment(const PolicyContext& context, const BlockRegion& segment,
                       ResidencyPlan& plan, CheckpointOptions options) {
  // Only values that the segment itself makes are dropped: its input stays, or another policy moves
  // it.
  const checkpoint_detail::Dropped dropped =
      checkpoint_detail::dropped_gaps(context, segment, options.code);
  if (dropped.gaps.empty()) return;
  checkpoint_detail::Boundary forward(context);
  for (Position p : segment.forward)
    forward.pass(p);
  Position last_use = segment.forward.front();
  for (GapId id : dropped.gaps)
    last_use = std::max(last_use, context.live.gaps[id].to);
  // The hooks of weights are the same closures.
  const std::vector<Position> unpacks = unpacked_in_backward(context, segment);
  if (!unpacks.empty()) last_use = std::max(last_use, unpacks.back());
  const bool reentrant = options.code == CheckpointCode::kReentrant;
  RecomputeGroup group;
  group.recipe = checkpoint_detail::recipe_of(
      context, segment, dropped.gaps,
      !reentrant && options.early_stop.value_or(context.graph.checkpoint_stops_early));
  group.in_hooks = !reentrant;
  if (context.graph.checkpoint_random_state > Bytes(0)) {
    group.held = context.graph.checkpoint_random_state;
    group.kept.push_back({.storage = {},
                          .bytes = context.graph.checkpoint_random_state,
                          .since = segment.forward.front(),
                          .until = reentrant ? segment.loss_dropped : last_use});
  }
  if (context.graph.has_frames && !segment.backward.empty()) {
    if (reentrant) {
      checkpoint_detail::keep_arguments(context, segment, forward, group);
    } else {
      for (StorageId input : forward.given()) {
        group.kept.push_back({.storage = input, .bytes = {}, .since = {}, .until = last_use});
      }
    }
  }
  const GroupId id = plan.add_group(std::move(group));
  for (GapId gap : dropped.gaps)
    plan.decide(gap, Recompute{.group = id, .issue_at = dropped.issue_at});
}

CheckpointOptions decode_checkpoint_options(const Decoder& d) {
  const bool reentrant = d.optional<bool>("reentrant", true);
  CheckpointOptions options{reentrant ? CheckpointCode::kReentrant : CheckpointCode::kHooks};
  if (d.has("early_stop")) {
    options.early_stop = d.required<bool>("early_stop");
    if (reentrant && *options.early_stop) {
      d.fail_at("early_stop",
                "a reentrant recomputation runs the whole segment; add reentrant: false");
    }
  }
  return options;
}

const PolicyEntry& checkpoint_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "checkpoint",
      .kind = "residency",
      .summary =
          "recompute single blocks: `layers: [0, 5]`, the `first` k, or `every_other: k` for "
          "blocks 0, k, 2k; reentrant and early_stop as in torch.utils.checkpoint",
      .source = kCheckpointSource,
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        checkpoint_detail::Checkpoint::Choice choice;
        choice.layers = d.list<std::int64_t>("layers", at_least(0));
        choice.first = d.optional<int>("first", 0, at_least(0));
        choice.every_other = d.optional<int>("every_other", 0, at_least(0));
        const CheckpointOptions options = decode_checkpoint_options(d);
        d.finish();
        const int ways = static_cast<int>(d.has("layers")) + static_cast<int>(d.has("first")) +
                         static_cast<int>(d.has("every_other"));
        if (ways > 1) d.fail("give one of layers: [0, 5], first: k and every_other: k");
        return std::make_unique<checkpoint_detail::Checkpoint>(std::move(choice), options);
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
        const CheckpointOptions options = decode_checkpoint_options(d);
        d.finish();
        return std::make_unique<checkpoint_detail::CheckpointSequential>(segments, options);
      }};
  return kEntry;
}

}  // namespace tidemark
