// The choice of a schedule among candidates, by which policies without a search of their own keep
// to a budget.
#pragma once

#include <string_view>
#include <vector>

#include "policies/solver/plan_policy.hpp"

namespace tidemark {

// Returns the cheapest of the candidates that fits and is of the class; if none fits, that of the
// least peak, with status unknown. `policy` is named in the reason.
[[nodiscard]] PlanResult choose_schedule(const RematProblem& problem, const PlanRequest& request,
                                         std::string_view policy, std::vector<Schedule> candidates);

// Makes a policy that chooses among candidates which do not depend on the budget.
template <class Candidates>
[[nodiscard]] PlanFunction chosen_from(std::string_view policy, Candidates candidates) {
  return [policy, candidates](const RematProblem& problem, const PlanRequest& request) {
    return choose_schedule(problem, request, policy, candidates(problem));
  };
}

}  // namespace tidemark
