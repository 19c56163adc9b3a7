#include "policies/plan/policy.hpp"

#include <algorithm>

#include "policies/plan/rewrite.hpp"

namespace tidemark {

void ResidencyPolicy::plan_recompute(const PolicyContext& /*context*/,
                                     ResidencyPlan& /*plan*/) const {}
void ResidencyPolicy::plan_movement(const PolicyContext& /*context*/,
                                    ResidencyPlan& /*plan*/) const {}

void TrainingRewrite::plan_recompute(const PolicyContext& /*context*/,
                                     ResidencyPlan& /*plan*/) const {}
void TrainingRewrite::plan_movement(const PolicyContext& /*context*/,
                                    ResidencyPlan& /*plan*/) const {}

std::vector<BlockRegion> block_segments(const PolicyContext& context, int period) {
  std::vector<BlockRegion> segments;
  // The place of each segment of the current micro-batch in the list, by the segment's number.
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> index;
  int step = 0;
  int micro_batch = 0;
  for (Position p : ids_of(context.order.at)) {
    const Occurrence& occurrence = context.order.at[p];
    const Phase phase = context.op_at(p).phase;
    if (occurrence.recompute || phase == Phase::kOptimizer) continue;
    const int block = context.block_at(p);
    if (block == kNoBlock) continue;
    if (occurrence.step != step || occurrence.micro_batch != micro_batch) {
      step = occurrence.step;
      micro_batch = occurrence.micro_batch;
      std::fill(index.begin(), index.end(), kNone);
    }
    const auto number = static_cast<std::size_t>(block / period);
    if (number >= index.size()) index.resize(number + 1, kNone);
    std::size_t& at = index[number];
    if (phase == Phase::kBackward) {
      if (at != kNone) segments[at].backward.push_back(p);
      continue;
    }
    if (at == kNone) {
      at = segments.size();
      segments.push_back({.step = step,
                          .micro_batch = micro_batch,
                          .first_block = block - block % period,
                          .last_block = block,
                          .forward = {},
                          .backward = {},
                          .loss_dropped = {}});
    }
    segments[at].last_block = std::max(segments[at].last_block, block);
    segments[at].forward.push_back(p);
  }
  const auto micro_batches = static_cast<std::size_t>(context.order.micro_batches);
  std::vector<Position> last_backward(static_cast<std::size_t>(context.order.steps) *
                                      micro_batches);
  std::vector<Position> last(static_cast<std::size_t>(context.order.steps));
  for (Position p : ids_of(context.order.at)) {
    const Occurrence& occurrence = context.order.at[p];
    last[occurrence.step] = p;
    if (!occurrence.recompute && context.op_at(p).phase == Phase::kBackward) {
      last_backward[occurrence.step * micro_batches + occurrence.micro_batch] = p;
    }
  }
  for (BlockRegion& segment : segments) {
    const auto step_index = static_cast<std::size_t>(segment.step);
    const auto position =
        step_index * micro_batches + static_cast<std::size_t>(segment.micro_batch);
    segment.loss_dropped = micro_batches > 1 ? last_backward[position] : last[step_index];
  }
  return segments;
}

}  // namespace tidemark
