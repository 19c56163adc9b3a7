// The question put to a policy that makes plans for a cost graph, and its answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "graph/core/units.hpp"
#include "policies/plan/plan_status.hpp"
#include "policies/remat/problem.hpp"

namespace tidemark {

struct PlanRequest {
  Bytes budget;  // fixed bytes included
  ScheduleClass schedule_class = ScheduleClass::kFixed;
  // Wall-clock time after which the best so far is returned.
  std::chrono::nanoseconds time_limit = std::chrono::seconds(10);
  // Iterations of the neighbourhood search; 0: until the time is over. With iterations and a time
  // limit that is not reached, plans are the same everywhere.
  std::int64_t iterations = 0;
  bool limited = false;  // the scenario gives iterations or time_limit
  std::uint64_t seed = 1;
  // The part of the bytes from forward to backward to save, for policies that take a share.
  std::optional<double> saved_share;
  // A schedule that is known to fit, such as that of a smaller budget: no plan is worse than it,
  // where it is of the class.
  const Schedule* known = nullptr;
};

struct PlanResult {
  PlanStatus status = PlanStatus::kUnknown;
  std::optional<Solution> solution;  // evaluated, of the class; within the budget if feasible
  // The cost that no fitting schedule of the class is below; absent when none fits.
  std::optional<std::int64_t> lower_bound;
  std::string reason;  // one sentence that says why nothing was found
  std::string note;    // deviations from the policy's paper; mostly empty
};

// Costs of a problem that was made from a step are nanoseconds.
[[nodiscard]] constexpr std::optional<Duration> as_duration(std::optional<std::int64_t> cost) {
  return cost ? std::optional(Duration(*cost)) : std::nullopt;
}

// Returns why no schedule of any class fits if one node alone takes more than the budget.
[[nodiscard]] std::optional<std::string> footprint_fault(const RematProblem& problem,
                                                         std::int64_t budget);

}  // namespace tidemark
