// Checkmate's approximation (Jain et al. 2020, arXiv 1910.02653, section 5): the linear relaxation
// of its integer program, rounded in two phases.
#pragma once

#include "policies/solver/optimal.hpp"

namespace tidemark {

// Thresholds and random rounding of S*, under the budget and parts of it; the cheapest replay that
// fits. The program has about nodes x edges variables: on graphs of more than 128 nodes it is that
// of stage_relaxation.hpp. There, or where nothing fits, what enters a single stage is rounded,
// too, with all else kept, and roundings that do not fit are brought within the budget by eviction
// with look-ahead or, where that ends nowhere, by changes at random up to the first schedule that
// fits. The result's note says which was done.
[[nodiscard]] PlanResult plan_checkmate_lp(const RematProblem& problem, const PlanRequest& request);

}  // namespace tidemark
