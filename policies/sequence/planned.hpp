// Checkpoint placement on a training graph by the policies of policies/solver: each micro-batch
// follows the schedule that is planned for its cost graph.
#pragma once

#include <span>

#include "policies/plan/entry.hpp"
#include "policies/solver/plan_policy.hpp"

namespace tidemark {

// Returns one entry for each of solver_policies(). Parameters: those of the policy, then budget (by
// default the capacity of the device without the framework's context), class, iterations,
// time_limit and seed. If no schedule fits a given budget, the plan says so; the cheapest or
// smallest one is laid out all the same. Whether a schedule fits is decided on the cost graph,
// except that everything is kept if that fits, though the cost graph may count more: see
// step_costs.hpp.
[[nodiscard]] std::span<const PolicyEntry> planned_entries();

// Makes a planned policy, also for those that have an entry of another kind; `policy` outlives it.
[[nodiscard]] AnyPolicy planned_policy(const PlanPolicy& policy, const Decoder& parameters);

}  // namespace tidemark
