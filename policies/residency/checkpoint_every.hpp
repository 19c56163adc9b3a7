// Checkpointing of repeated blocks.
#pragma once

#include "policies/plan/policy.hpp"
#include "policies/registry.hpp"

namespace tidemark {

// Drops everything that the segment's forward makes and backward needs, and runs the whole segment
// again before its first use in backward.
void recompute_segment(const PolicyContext& context, const BlockRegion& segment,
                       ResidencyPlan& plan);

[[nodiscard]] const PolicyEntry& checkpoint_every_entry();

}  // namespace tidemark
