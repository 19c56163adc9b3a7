#include "policies/plan/policy.hpp"

namespace tidemark {

void ResidencyPolicy::plan_recompute(const PolicyContext& /*context*/,
                                     ResidencyPlan& /*plan*/) const {}
void ResidencyPolicy::plan_movement(const PolicyContext& /*context*/,
                                    ResidencyPlan& /*plan*/) const {}

std::vector<BlockRegion> forward_segments(const PolicyContext& context, int period) {
  std::vector<BlockRegion> segments;
  for (Position p : ids_of(context.order.at)) {
    const Occurrence& occurrence = context.order.at[p];
    if (occurrence.recompute || context.op_at(p).phase != Phase::kForward) continue;
    const int block = context.block_at(p);
    if (block == kNoBlock) continue;
    const int first = block - block % period;
    const bool same = !segments.empty() && segments.back().step == occurrence.step &&
                      segments.back().micro_batch == occurrence.micro_batch &&
                      segments.back().first_block == first;
    if (!same) {
      segments.push_back({.step = occurrence.step,
                          .micro_batch = occurrence.micro_batch,
                          .first_block = first,
                          .last_block = first,
                          .forward = {}});
    }
    segments.back().last_block = block;
    segments.back().forward.push_back(p);
  }
  return segments;
}

}  // namespace tidemark
