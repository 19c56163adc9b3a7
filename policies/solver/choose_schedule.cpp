#include "policies/solver/choose_schedule.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/core/units.hpp"
#include "policies/remat/parts.hpp"
#include "policies/solver/lower_bound.hpp"

namespace tidemark {

PlanResult choose_schedule(const RematProblem& problem, const PlanRequest& request,
                           std::string_view policy, std::vector<Schedule> candidates) {
  if (auto fault = footprint_fault(problem, request.budget.count)) {
    return {.status = PlanStatus::kInfeasible, .reason = *std::move(fault)};
  }
  if (request.known != nullptr) candidates.push_back(*request.known);
  std::optional<Solution> best;
  const auto fits = [&](const Solution& s) { return s.evaluation.peak <= request.budget.count; };
  for (Schedule& schedule : candidates) {
    schedule = with_parts_again(problem, std::move(schedule), request.schedule_class);
    if (class_fault(problem, schedule, request.schedule_class)) continue;
    Solution next = evaluated(problem, std::move(schedule));
    const bool better = !best || (fits(next) != fits(*best) ? fits(next)
                                  : fits(next) ? next.evaluation.cost < best->evaluation.cost
                                               : next.evaluation.peak < best->evaluation.peak);
    if (better) best = std::move(next);
  }
  PlanResult result;
  result.lower_bound = cut_bound(problem, request.budget.count, request.schedule_class);
  if (*result.lower_bound >= kNoSchedule) {
    return {.status = PlanStatus::kInfeasible,
            .solution = std::move(best),
            .reason =
                "what may run only once and is read later takes more than the budget beside "
                "what is computed"};
  }
  if (best && fits(*best)) {
    result.status =
        best->evaluation.cost <= *result.lower_bound ? PlanStatus::kOptimal : PlanStatus::kFeasible;
  } else if (best) {
    result.reason =
        fmt::format("{} needs at least {} ({} bytes) here; another policy may fit", policy,
                    format_bytes(Bytes(best->evaluation.peak)), best->evaluation.peak);
  } else {
    result.reason = fmt::format("{} has no schedule of class {} that fits; another policy may",
                                policy, name_of(request.schedule_class));
  }
  result.solution = std::move(best);
  return result;
}

}  // namespace tidemark
