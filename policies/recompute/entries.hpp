// The policies that recompute blocks or kinds of operators, on training graphs and on cost graphs
// alike: one class decides for both.
#pragma once

#include "policies/plan/entry.hpp"
#include "policies/solver/plan_policy.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& checkpoint_every_entry();
[[nodiscard]] const PolicyEntry& megatron_selective_entry();
[[nodiscard]] const PolicyEntry& revolve_entry();
[[nodiscard]] const PolicyEntry& selective_entry();

// The same policies on cost graphs.
[[nodiscard]] const PlanPolicy& checkpoint_every_plan();
[[nodiscard]] const PlanPolicy& megatron_selective_plan();
[[nodiscard]] const PlanPolicy& revolve_plan();
[[nodiscard]] const PlanPolicy& selective_plan();

}  // namespace tidemark
