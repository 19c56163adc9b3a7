// Checkpointing of every k-th block, or of every k-th node of a cost graph.
#include "graph/core/errors.hpp"
#include "policies/recompute/entries.hpp"
#include "policies/remat/keep_set.hpp"
#include "policies/residency/checkpoint.hpp"
#include "policies/sequence/planned.hpp"
#include "policies/solver/chen.hpp"
#include "policies/solver/choose_schedule.hpp"

namespace tidemark {
namespace checkpoint_every_detail {
namespace {

// Keeps every `period`-th boundary and recomputes the whole segment between two of them. In a step
// the boundaries are the inputs of blocks; on a cost graph they are layers' outputs, articulation
// points or nodes.
//
//   forward    [ block 0 | block 1 ][ block 2 | block 3 ] head
//   period 2   x0 kept    -          x2 kept    -
class CheckpointEvery final : public ResidencyPolicy {
 public:
  // `fallback`: the boundaries where none are named.
  static CheckpointEvery decode(const Decoder& d, std::string_view fallback) {
    static constexpr std::string_view kOver[] = {"layers", "articulation", "nodes"};
    CheckpointEvery policy;
    policy.period_ = d.optional<int>("period", 1, at_least(1));
    policy.over_ = d.optional_word("over", kOver, fallback);
    return policy;
  }
  void decode_options(const Decoder& d) { options_ = decode_checkpoint_options(d); }
  [[nodiscard]] std::string_view name() const override { return "checkpoint_every"; }
  [[nodiscard]] bool decides_by_structure() const override { return true; }
  [[nodiscard]] std::vector<BlockRange> reentrant_segments(int blocks) const override {
    return options_.code == CheckpointCode::kReentrant ? segments_of(blocks, period_)
                                                       : std::vector<BlockRange>();
  }
  [[nodiscard]] bool is_over_layers() const { return over_ == "layers"; }

  void plan_recompute(const PolicyContext& context, ResidencyPlan& plan) const override {
    for (const BlockRegion& segment : block_segments(context, period_)) {
      recompute_segment(context, segment, plan, options_);
    }
  }
  [[nodiscard]] Schedule schedule(const RematProblem& problem) const {
    const std::vector<NodeIndex> boundaries = checkpoint_candidates(problem, over_).front();
    return segment_schedule(problem, every(boundaries, period_));
  }

 private:
  int period_ = 1;
  std::string over_;
  CheckpointOptions options_;
};

}  // namespace
}  // namespace checkpoint_every_detail

const PolicyEntry& checkpoint_every_entry() {
  static constexpr PolicyEntry kEntry{
      .name = "checkpoint_every",
      .kind = "residency",
      .summary =
          "recompute every `period` consecutive blocks from the input of the first; "
          "reentrant (default true) and early_stop as in torch.utils.checkpoint; or, over: "
          "articulation "
          "or nodes, from every `period`-th of those. It takes no budget: chen_greedy and optimal "
          "do",
      .source = kCheckpointSource,
      .decode = [](const Decoder& d, const RewriteContext& /*context*/) -> AnyPolicy {
        checkpoint_every_detail::CheckpointEvery policy =
            checkpoint_every_detail::CheckpointEvery::decode(d, "layers");
        if (!policy.is_over_layers()) return planned_policy(checkpoint_every_plan(), d);
        policy.decode_options(d);
        d.finish();
        return std::make_unique<checkpoint_every_detail::CheckpointEvery>(std::move(policy));
      },
      .plan = checkpoint_every_plan};
  return kEntry;
}

const PlanPolicy& checkpoint_every_plan() {
  static constexpr PlanPolicy kPolicy{
      .name = "checkpoint_every",
      .summary =
          "keeps every `period`-th forward node, articulation point or layer's output (`over`) and "
          "recomputes whole segments between; over layers, period 1, it is Megatron's full "
          "recompute",
      .source = "Chen et al. 2016; torch.utils.checkpoint",
      .decode = [](const Decoder& d) -> PlanFunction {
        return chosen_from("checkpoint_every",
                           [policy = checkpoint_every_detail::CheckpointEvery::decode(d, "nodes")](
                               const RematProblem& problem) {
                             return std::vector<Schedule>{policy.schedule(problem)};
                           });
      }};
  return kPolicy;
}

}  // namespace tidemark
