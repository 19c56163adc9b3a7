// The policy `optimal`: the cheapest schedule within a budget that is found within a time limit,
// and what is proven about it.
#pragma once

#include "policies/solver/plan_result.hpp"

namespace tidemark {

// Any-time search: cut bounds, then neighbourhood search, then, on small graphs, exact search below
// the best cost so far. One core; the time limit only ends the search.
[[nodiscard]] PlanResult plan_optimal(const RematProblem& problem, const PlanRequest& request);

}  // namespace tidemark
