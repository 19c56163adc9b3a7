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

// The rule by which backward gathers units ahead of their use, where forward has freed them.
struct GatherAhead {
  BackwardPrefetch when = BackwardPrefetch::kPre;
  // A mark issues the next units until its gathers reach this many elements (DeepSpeed's
  // prefetch_bucket_size). Without `most_live` it issues one unit, as FSDP does.
  Elements bucket{1};
  // Nothing is issued while as many elements are gathered or issued (max_live_parameters).
  std::optional<Elements> most_live = std::nullopt;
};

// Closes the gaps of gathered storages between a release in forward and the use in backward.
void plan_gathers(const PolicyContext& context, const GatherAhead& ahead, ResidencyPlan& plan);

// Counts the tensors that the optimizer updates in parts as decisions of the policy that plans.
void count_shards(const PolicyContext& context, ResidencyPlan& plan);

}  // namespace tidemark
