// The choice of a schedule among candidates, by which policies without a search of their own keep
// to a budget.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "policies/solver/plan_policy.hpp"

namespace tidemark {

// Takes candidates one at a time and keeps few of them: there may be hundreds, each longer than the
// graph.
class ScheduleChoice {
 public:
  // Both live longer. `policy` is named in the reason.
  ScheduleChoice(const RematProblem& problem, const PlanRequest& request, std::string_view policy);

  void consider(Schedule schedule);
  // Gives what room the best candidates leave to values that they recompute.
  void use_room();
  // Returns the cheapest candidate that fits, if any does.
  [[nodiscard]] std::optional<Solution> cheapest() const;
  // Returns the cheapest candidate that fits and is of the class; if none fits, that of the least
  // peak, with status unknown.
  [[nodiscard]] PlanResult result();

 private:
  [[nodiscard]] bool fits(const Solution& s) const;
  void take(Solution next);

  const RematProblem& problem_;
  const PlanRequest& request_;
  std::string_view policy_;
  std::vector<Solution> best_;  // those that fit, the cheapest first; else that of the least peak
};

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
