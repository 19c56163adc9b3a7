#include "policies/solver/choose_schedule.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/core/units.hpp"
#include "policies/remat/parts.hpp"
#include "policies/solver/keep_more.hpp"
#include "policies/solver/lower_bound.hpp"

namespace tidemark {
namespace choose_schedule_detail {
namespace {

// Number of candidates that fit and are kept: what is cheapest with room left need not be once the
// room is used.
constexpr std::size_t kKept = 6;

// The cheapest comes first; of equal costs that with fewer computations, each of which the host
// issues, then that of the least peak.
std::tuple<std::int64_t, std::size_t, std::int64_t> rank(const Solution& s) {
  return {s.evaluation.cost, s.schedule.size(), s.evaluation.peak};
}

}  // namespace
}  // namespace choose_schedule_detail

ScheduleChoice::ScheduleChoice(const RematProblem& problem, const PlanRequest& request,
                               std::string_view policy)
    : problem_(problem), request_(request), policy_(policy) {}

bool ScheduleChoice::fits(const Solution& s) const {
  return s.evaluation.peak <= request_.budget.count;
}

void ScheduleChoice::take(Solution next) {
  using choose_schedule_detail::rank;
  const bool first = best_.empty() || fits(next) != fits(best_.front());
  if (first) {
    if (!best_.empty() && !fits(next)) return;
    best_.clear();
    best_.push_back(std::move(next));
  } else if (!fits(next)) {
    if (next.evaluation.peak < best_.front().evaluation.peak) best_.front() = std::move(next);
  } else {
    const auto at =
        std::lower_bound(best_.begin(), best_.end(), next,
                         [](const Solution& a, const Solution& b) { return rank(a) < rank(b); });
    if (at != best_.end() && rank(*at) == rank(next)) return;
    best_.insert(at, std::move(next));
    if (best_.size() > choose_schedule_detail::kKept) best_.pop_back();
  }
}

void ScheduleChoice::consider(Schedule schedule) {
  schedule = with_parts_again(problem_, std::move(schedule), request_.schedule_class);
  if (class_fault(problem_, schedule, request_.schedule_class)) return;
  take(evaluated(problem_, std::move(schedule)));
}

void ScheduleChoice::use_room() {
  if (best_.empty() || !fits(best_.front())) return;
  const std::vector<Solution> before = best_;
  for (const Solution& candidate : before)
    consider(keep_more(problem_, request_.budget.count, candidate.schedule));
}

std::optional<Solution> ScheduleChoice::cheapest() const {
  if (best_.empty() || !fits(best_.front())) return std::nullopt;
  return best_.front();
}

PlanResult ScheduleChoice::result() {
  if (auto fault = footprint_fault(problem_, request_.budget.count)) {
    return {.status = PlanStatus::kInfeasible, .reason = *std::move(fault)};
  }
  if (request_.known != nullptr) consider(*request_.known);
  std::optional<Solution> best;
  if (!best_.empty()) best = std::move(best_.front());
  PlanResult result;
  result.lower_bound = cut_bound(problem_, request_.budget.count, request_.schedule_class);
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
        fmt::format("{} needs at least {} ({} bytes) here; another policy may fit", policy_,
                    format_bytes(Bytes(best->evaluation.peak)), best->evaluation.peak);
  } else {
    result.reason = fmt::format("{} has no schedule of class {} that fits; another policy may",
                                policy_, name_of(request_.schedule_class));
  }
  result.solution = std::move(best);
  return result;
}

PlanResult choose_schedule(const RematProblem& problem, const PlanRequest& request,
                           std::string_view policy, std::vector<Schedule> candidates) {
  ScheduleChoice choice(problem, request, policy);
  for (Schedule& schedule : candidates)
    choice.consider(std::exchange(schedule, {}));
  return choice.result();
}

}  // namespace tidemark
