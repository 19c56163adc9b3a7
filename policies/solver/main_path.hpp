// The main path: the forward nodes on the way from the samples to the loss.
#pragma once

#include <span>

#include "policies/solver/step_costs.hpp"

namespace tidemark {

// Marks the forward nodes off the main path. A node on it depends on the samples, has a gradient
// and leads to the loss. `node_of`: the node of each of `ops`.
void mark_off_main_path(const TrainingGraph& graph, std::span<const OperatorId> ops,
                        std::span<const CostNodeId> node_of, StepCosts& costs);

}  // namespace tidemark
