#include "policies/solver/choose_schedule.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/core/units.hpp"
#include "policies/remat/keep_set.hpp"
#include "policies/remat/parts.hpp"
#include "policies/solver/keep_more.hpp"
#include "policies/solver/lower_bound.hpp"

namespace tidemark {
namespace choose_schedule_detail {
namespace {

// Number of candidates that fit and are kept: what is cheapest with room left need not be once the
// room is used.
constexpr std::size_t kKept = 6;

// The share of the time limit that is over when no more candidates are made, unless the policy
// gives them another; what is left is for using their room and for the bound.
constexpr double kForCandidates = 0.7;

// The cheapest comes first; of equal costs that with fewer computations, each of which the host
// issues, then that of the least peak.
std::tuple<std::int64_t, std::size_t, std::int64_t> rank(const Solution& s) {
  return {s.evaluation.cost, s.schedule.size(), s.evaluation.peak};
}

}  // namespace
}  // namespace choose_schedule_detail

ScheduleChoice::ScheduleChoice(const RematProblem& problem, const PlanRequest& request,
                               std::string_view policy, Clock::time_point begin)
    : problem_(problem),
      request_(request),
      policy_(policy),
      begin_(begin),
      candidates_end_(at(choose_schedule_detail::kForCandidates)) {}

ScheduleChoice::Clock::time_point ScheduleChoice::at(double share) const {
  return begin_ + std::chrono::duration_cast<Clock::duration>(request_.time_limit * share);
}

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

// Whether a schedule costs more than all that are kept, so that it is not worth evaluating.
bool ScheduleChoice::too_dear(const Schedule& schedule) const {
  if (best_.size() < choose_schedule_detail::kKept) return false;
  std::int64_t cost = 0;
  for (const NodeIndex node : schedule)
    cost += problem_.cost[node];
  return cost > best_.back().evaluation.cost;
}

void ScheduleChoice::consider(Schedule schedule) {
  if (schedule.empty()) {
    too_long_ = true;
    return;
  }
  const bool enough = !best_.empty() && fits(best_.front());
  if ((enough && late()) || too_dear(schedule)) return;
  schedule = with_parts_again(problem_, std::move(schedule), request_.schedule_class);
  if (class_fault(problem_, schedule, request_.schedule_class)) return;
  take(evaluated(problem_, std::move(schedule)));
}

void ScheduleChoice::use_room(double share) {
  if (best_.empty() || !fits(best_.front())) return;
  const std::vector<Solution> before = best_;
  give_until(share);
  for (const Solution& candidate : before) {
    if (late()) return;
    consider(keep_more(problem_, request_.budget.count, candidate.schedule, candidates_end_));
  }
}

std::optional<Solution> ScheduleChoice::cheapest() const {
  if (best_.empty() || !fits(best_.front())) return std::nullopt;
  return best_.front();
}

PlanResult ScheduleChoice::result() {
  if (auto fault = footprint_fault(problem_, request_.budget.count)) {
    return {.status = PlanStatus::kInfeasible, .reason = *std::move(fault)};
  }
  if (request_.known != nullptr) {
    give_until(1);
    consider(*request_.known);
  }
  std::optional<Solution> best;
  if (!best_.empty()) best = std::move(best_.front());
  PlanResult result;
  result.lower_bound = cut_bound(problem_, request_.budget.count, request_.schedule_class, at(1));
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
  } else if (too_long_) {
    result.reason =
        fmt::format("{} recomputes so much here that its schedules have more than {} computations",
                    policy_, kMostComputations);
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
