// The policy `optimal`: the cheapest schedule within a budget that a time limit lets be found, and
// what is proven about it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "graph/core/units.hpp"
#include "policies/remat/problem.hpp"

namespace tidemark {

enum class PlanStatus : std::uint8_t {
  kOptimal,     // no schedule of the class is cheaper: proven
  kFeasible,    // fits; a cheaper one may exist
  kInfeasible,  // no schedule of the class fits: proven
  kUnknown,     // none that fits was found
};
[[nodiscard]] std::string_view name_of(PlanStatus status);

struct PlanRequest {
  std::int64_t budget = 0;  // bytes, fixed bytes included
  ScheduleClass schedule_class = ScheduleClass::kFixed;
  // Wall-clock time after which the best so far is returned.
  std::chrono::nanoseconds time_limit = std::chrono::seconds(10);
  // Iterations of the neighbourhood search; 0: until the time is over. With iterations and a time
  // limit that is not reached, plans are the same everywhere.
  std::int64_t iterations = 0;
  std::uint64_t seed = 1;
  // Where a policy shares out the bytes that cross from forward to backward: the part to save.
  std::optional<double> saved_share;
  // A schedule that is known to fit, such as that of a smaller budget: no plan is worse than it,
  // where it is of the class.
  const Schedule* known = nullptr;
};

struct PlanResult {
  PlanStatus status = PlanStatus::kUnknown;
  std::optional<Solution> solution;  // replayed, of the class; within the budget if feasible
  // No schedule of the class that fits costs less; absent when none fits.
  std::optional<std::int64_t> lower_bound;
  std::string reason;  // one sentence when nothing was found, and why it is so
  std::string note;    // what was done otherwise than the policy's paper says; mostly empty
};

// Costs of a problem that was made from a step are nanoseconds.
[[nodiscard]] constexpr std::optional<Duration> as_duration(std::optional<std::int64_t> cost) {
  return cost ? std::optional(Duration(*cost)) : std::nullopt;
}

// Any-time: cut bounds, then neighbourhood search, then, on small graphs, exact search below the
// best cost so far. One core; the time limit only ends the search.
[[nodiscard]] PlanResult plan_optimal(const RematProblem& problem, const PlanRequest& request);

// Whether no schedule of any class fits because one node alone takes more than the budget.
[[nodiscard]] std::optional<std::string> footprint_fault(const RematProblem& problem,
                                                         std::int64_t budget);

}  // namespace tidemark
