// Checkpoint placement on a training graph: the policies of policies/solver, each micro-batch by
// the schedule that is planned for its cost graph.
#pragma once

#include <span>

#include "policies/plan/entry.hpp"
#include "policies/solver/plan_policy.hpp"

namespace tidemark {

// One entry for each of solver_policies(). Parameters: those of the policy, then budget (the
// capacity of the device beside the framework's context), class, iterations, time_limit and seed.
// Where none fits a budget that is given, the plan says so; the cheapest or smallest schedule is
// laid out all the same. What fits is counted as in the cost graph, but where keeping everything
// fits, it is kept, though the cost graph may count more: see step_costs.hpp.
[[nodiscard]] std::span<const PolicyEntry> planned_entries();

// Such a policy, also for those that have an entry of another kind; `policy` outlives it.
[[nodiscard]] AnyPolicy planned_policy(const PlanPolicy& policy, const Decoder& parameters);

}  // namespace tidemark
