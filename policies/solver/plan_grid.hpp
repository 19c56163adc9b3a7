// Plans for several budgets, each no worse than that for less memory.
#pragma once

#include <span>
#include <vector>

#include "policies/solver/plan_policy.hpp"

namespace tidemark {

// Plans with every policy for every budget: result[policy][budget]. Each policy starts from its
// plan for the next smaller budget, so that more memory never makes a plan worse; a bound proven
// for a larger budget holds for the smaller ones. The time limit is that of one plan.
[[nodiscard]] std::vector<std::vector<PlanResult>> plan_grid(const RematProblem& problem,
                                                             std::span<const PlanFunction> policies,
                                                             std::span<const Bytes> budgets,
                                                             const PlanRequest& request);

}  // namespace tidemark
