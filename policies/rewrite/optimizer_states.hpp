// The state that an optimizer keeps of each parameter from step to step.
#pragma once

#include <span>
#include <vector>

#include "graph/ir/training_graph.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {

// Returns the use of each parameter: a matrix (kernels of a convolution are one row per output
// channel) is the head if forward multiplies by it last, and an embedding if it is looked up, also
// where both.
using ParameterUses = IdVector<ParameterId, ParameterUse>;
[[nodiscard]] ParameterUses parameter_uses(const TrainingGraph& graph);
// Returns the use of what the optimizer updates; kOther for a flat tensor of many parameters.
[[nodiscard]] ParameterUse use_of(const ParameterUses& uses, const UpdatedTensor& tensor);

// Returns the state of an updated tensor. `weights`: the type of the updated weights, which the
// moments have too.
[[nodiscard]] std::vector<OptimizerState> optimizer_states(
    const OptimizerSpec& spec, OptimizerImplementation implementation, const FrameworkRules& rules,
    const UpdatedTensor& tensor, DType weights, bool master_weights, ParameterUse use);

}  // namespace tidemark
