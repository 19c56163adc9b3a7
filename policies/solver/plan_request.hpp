// The keys that every policy of checkpoint placement takes beside its own.
#pragma once

#include "policies/plan/policy_base.hpp"
#include "policies/solver/plan_policy.hpp"

namespace tidemark {

// Reads budget, class and, if they have an effect on the policy, iterations, time_limit and seed;
// elsewhere these throw UserError. Keys that are absent stay as in `request`. With iterations and
// no time limit there is none.
[[nodiscard]] PlanRequest decode_request(const Decoder& parameters, const PlanPolicy& policy,
                                         PlanRequest request);

// Limits the search of a request whose scenario gives no limit. Returns whether it did.
bool limit_search(PlanRequest& request, const SearchLimits& limits);

}  // namespace tidemark
