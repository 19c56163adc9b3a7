// The choice of a schedule among candidates, by which policies without a search of their own keep
// to a budget.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "policies/solver/plan_policy.hpp"

namespace tidemark {

// Takes candidates one at a time and keeps few of them: there may be hundreds, each longer than the
// graph.
//
// The request's time limit holds for all of it: candidates are made while there is time for them,
// and the rest is for the bound.
class ScheduleChoice {
 public:
  using Clock = std::chrono::steady_clock;
  // `problem` and `request` outlive the choice. `policy` is the name that a refusal's reason gives.
  ScheduleChoice(const RematProblem& problem, const PlanRequest& request, std::string_view policy,
                 Clock::time_point begin = Clock::now());

  // Lets candidates be made until this share of the time limit is over.
  void give_until(double share) { candidates_end_ = at(share); }
  [[nodiscard]] Clock::time_point candidates_end() const { return candidates_end_; }
  // Whether no more candidates are to be made; those that are made all the same are passed over.
  [[nodiscard]] bool late() const { return Clock::now() > candidates_end_; }

  // Keeps a candidate if it is among the best. An empty schedule, which was too long to make, is
  // passed over.
  void consider(Schedule schedule);
  // Lets the best candidates keep values that they recompute, where the budget has room for them.
  // This may take until `share` of the time limit is over.
  void use_room(double share = 0.85);
  // Returns the cheapest candidate that fits, if any does.
  [[nodiscard]] std::optional<Solution> cheapest() const;
  // Returns the cheapest candidate that fits and is of the class; if none fits, that of the least
  // peak, with status unknown.
  [[nodiscard]] PlanResult result();

 private:
  [[nodiscard]] bool fits(const Solution& s) const;
  [[nodiscard]] Clock::time_point at(double share) const;
  [[nodiscard]] bool too_dear(const Schedule& schedule) const;
  void take(Solution next);

  const RematProblem& problem_;
  const PlanRequest& request_;
  std::string_view policy_;
  Clock::time_point begin_;
  Clock::time_point candidates_end_;
  bool too_long_ = false;       // whether some candidate was too long to make
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
