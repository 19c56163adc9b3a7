#include "policies/solver/plan_request.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/core/units.hpp"
#include "policies/plan/budget.hpp"
#include "policies/solver/solver_policies.hpp"

namespace tidemark {
namespace plan_request_detail {
namespace {

constexpr Duration kLongestPlan = std::chrono::hours(24 * 365);

// Returns `takes`; throws UserError if the key is given all the same.
bool has_effect(const Decoder& d, const PlanPolicy& policy, std::string_view key, bool takes) {
  if (takes || !d.has(key)) return takes;
  std::vector<std::string_view> others;
  for (const PlanPolicy& other : solver_policies()) {
    const SearchKeys& keys = other.search;
    if (key == "iterations" ? keys.iterations : key == "seed" ? keys.seed : keys.time_limit)
      others.push_back(other.name);
  }
  d.fail_at(key, fmt::format("has no effect on {}; leave it out (it is for {})", policy.name,
                             fmt::join(others, ", ")));
}

}  // namespace
}  // namespace plan_request_detail

PlanRequest decode_request(const Decoder& parameters, const PlanPolicy& policy,
                           PlanRequest request) {
  const Value* budget = parameters.value().find("budget");
  // A bare number is bytes, of which no budget has one or less.
  const bool share = policy.shares && budget != nullptr && budget->is_scalar() &&
                     budget->scalar.find_first_not_of("0123456789.") == std::string::npos &&
                     (budget->scalar.find('.') != std::string::npos || budget->scalar.size() == 1);
  if (share) {
    request.saved_share = parameters.maybe<double>("budget", between(0, 1));
  } else if (const auto bytes = decode_budget(parameters, {})) {
    request.budget = *bytes;
  }
  std::vector<std::string_view> names;
  for (const ScheduleClass schedule_class : kScheduleClasses)
    names.push_back(name_of(schedule_class));
  const std::string word =
      parameters.optional_word("class", names, name_of(request.schedule_class));
  for (const ScheduleClass schedule_class : kScheduleClasses) {
    if (word == name_of(schedule_class)) request.schedule_class = schedule_class;
  }
  const SearchKeys& takes = policy.search;
  if (plan_request_detail::has_effect(parameters, policy, "iterations", takes.iterations)) {
    request.iterations =
        parameters.optional<std::int64_t>("iterations", request.iterations, at_least(0));
  }
  if (plan_request_detail::has_effect(parameters, policy, "time_limit", takes.time_limit)) {
    const Duration limit = parameters.optional<Duration>("time_limit", request.time_limit);
    // Iterations alone end the search at the same point on every machine.
    const bool endless = request.iterations > 0 && !parameters.has("time_limit");
    request.time_limit = endless ? plan_request_detail::kLongestPlan
                                 : std::min(limit, plan_request_detail::kLongestPlan);
  }
  if (plan_request_detail::has_effect(parameters, policy, "seed", takes.seed)) {
    request.seed = static_cast<std::uint64_t>(parameters.optional<std::int64_t>(
        "seed", static_cast<std::int64_t>(request.seed), at_least(0)));
  }
  request.limited = parameters.has("iterations") || parameters.has("time_limit");
  return request;
}

bool limit_search(PlanRequest& request, const SearchLimits& limits) {
  if (request.limited) return false;
  request.iterations = limits.iterations;
  request.time_limit = std::min(limits.time, plan_request_detail::kLongestPlan);
  return true;
}

}  // namespace tidemark
