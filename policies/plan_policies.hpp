// All policies of checkpoint placement on cost graphs, by name.
#pragma once

#include <span>
#include <string_view>

#include "policies/solver/plan_policy.hpp"

namespace tidemark {

[[nodiscard]] std::span<const PlanPolicy> plan_policies();
[[nodiscard]] const PlanPolicy* find_plan_policy(std::string_view name);

}  // namespace tidemark
