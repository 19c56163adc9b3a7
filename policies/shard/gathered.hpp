// Gathered parameters as gaps: what is gathered in forward, freed behind it and gathered again for
// backward is recomputed by the operators that made it.
//
//   forward    gather  (copy out)  ...unit...  release      OperatorPart::kRelease ends the use
//   backward   [gather  copy out]  use  ...unit...  release   use: OperatorPart::kUseGathered
//
// Both marks are operators without work. What is in brackets is inserted by the plan; a gather is
// issued ahead of its unit as the prefetch says, a copy right before the mark.
#pragma once

#include <cstdint>
#include <optional>

#include "policies/plan/policy.hpp"

namespace tidemark {

// The moment at which backward gathers a unit.
enum class BackwardPrefetch {
  kNone,  // right when it is needed
  kPre,   // when the unit that backward visits before it has been gathered
  kPost,  // when that unit's backward is over
};

// Closes the gaps of gathered storages between a release in forward and the use in backward. A
// gather is ahead of its use only while fewer than `most_live` elements of such units are gathered
// (DeepSpeed's max_live_parameters).
void plan_gathers(const PolicyContext& context, BackwardPrefetch prefetch, ResidencyPlan& plan,
                  std::optional<Elements> most_live = std::nullopt);

// Counts the tensors that the optimizer updates in parts as decisions of the policy that plans.
void count_shards(const PolicyContext& context, ResidencyPlan& plan);

}  // namespace tidemark
