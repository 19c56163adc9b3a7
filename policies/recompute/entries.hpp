// The policies that recompute blocks or kinds of operators. One class decides for training graphs
// and for cost graphs.
#pragma once

#include "policies/plan/entry.hpp"
#include "policies/solver/plan_policy.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& checkpoint_every_entry();
[[nodiscard]] const PolicyEntry& megatron_selective_entry();
[[nodiscard]] const PolicyEntry& revolve_entry();
[[nodiscard]] const PolicyEntry& selective_entry();

// Entries of these policies for cost graphs.
[[nodiscard]] const PlanPolicy& checkpoint_every_plan();
[[nodiscard]] const PlanPolicy& megatron_selective_plan();
[[nodiscard]] const PlanPolicy& revolve_plan();
[[nodiscard]] const PlanPolicy& selective_plan();

}  // namespace tidemark
