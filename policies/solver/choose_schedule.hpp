// The choice of a schedule among candidates, which is all that policies without a search of their
// own do with a budget.
#pragma once

#include <string_view>
#include <vector>

#include "policies/solver/plan_policy.hpp"

namespace tidemark {

// The cheapest of the candidates that fits and is of the class; where none fits, that of the least
// peak, with status unknown. `policy` is named in the reason.
[[nodiscard]] PlanResult choose_schedule(const RematProblem& problem, const PlanRequest& request,
                                         std::string_view policy, std::vector<Schedule> candidates);

// A policy whose candidates do not depend on the budget, which chooses among them.
template <class Candidates>
[[nodiscard]] PlanFunction chosen_from(std::string_view policy, Candidates candidates) {
  return [policy, candidates](const RematProblem& problem, const PlanRequest& request) {
    return choose_schedule(problem, request, policy, candidates(problem));
  };
}

}  // namespace tidemark
