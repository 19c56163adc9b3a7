// The policies that solve for a budget on cost graphs alone.
#pragma once

#include <cstddef>
#include <span>

#include "policies/solver/plan_policy.hpp"

namespace tidemark {

inline constexpr std::size_t kSolverPolicyCount = 8;
[[nodiscard]] std::span<const PlanPolicy> solver_policies();

}  // namespace tidemark
