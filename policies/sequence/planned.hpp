// Checkpoint placement on a training graph: the policies of policies/solver, each micro-batch by
// the schedule that is planned for its cost graph.
#pragma once

#include <span>

#include "policies/registry.hpp"

namespace tidemark {

// One entry for each of plan_policies() that is not a policy of its own in scenarios. Parameters:
// those of the policy, then budget (the capacity of the device beside the framework's context),
// class, iterations, time_limit and seed. Plans of a budget that is given and that none fits are
// said to be infeasible; the cheapest or smallest schedule is laid out all the same.
[[nodiscard]] std::span<const PolicyEntry> planned_entries();

}  // namespace tidemark
