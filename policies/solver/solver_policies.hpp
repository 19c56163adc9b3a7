// The policies that solve for a budget on cost graphs alone.
#pragma once

#include <span>

#include "policies/solver/plan_policy.hpp"

namespace tidemark {

[[nodiscard]] std::span<const PlanPolicy> solver_policies();

}  // namespace tidemark
