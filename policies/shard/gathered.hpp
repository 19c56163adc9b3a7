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

// What backward gathers ahead of its use, of the units that forward frees.
struct GatherAhead {
  BackwardPrefetch when = BackwardPrefetch::kPre;
  // Under kPre the next units are gathered one by one, until those of this moment have as many
  // elements: 1 is the next unit alone (DeepSpeed's prefetch_bucket_size).
  Elements bucket{1};
  // None is gathered while as many elements are, or have been issued (max_live_parameters).
  std::optional<Elements> most_live = std::nullopt;
};

// Closes the gaps of gathered storages between a release in forward and the use in backward.
void plan_gathers(const PolicyContext& context, const GatherAhead& ahead, ResidencyPlan& plan);

// Counts the tensors that the optimizer updates in parts as decisions of the policy that plans.
void count_shards(const PolicyContext& context, ResidencyPlan& plan);

}  // namespace tidemark
