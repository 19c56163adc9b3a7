// Checkmate's approximation (Jain et al. 2020, arXiv 1910.02653, section 5): the linear relaxation
// of its integer program, rounded in two phases.
#pragma once

#include "policies/solver/plan_result.hpp"

namespace tidemark {

// Rounds S* by thresholds and at random, under the budget and parts of it, and returns the cheapest
// schedule that fits. The program has about nodes x edges variables: graphs of more than 128 nodes
// use that of stage_relaxation.hpp. There, or where nothing fits, the values that enter a single
// stage are rounded, too, with all else kept, and roundings that do not fit are brought within the
// budget by eviction with look-ahead or, if that finds no schedule, by random changes up to the
// first schedule that fits. The result's note says which was done.
[[nodiscard]] PlanResult plan_checkmate_lp(const RematProblem& problem, const PlanRequest& request);

}  // namespace tidemark
