// The state that an optimizer keeps of each parameter from step to step.
#pragma once

#include <span>
#include <vector>

#include "graph/ir/training_graph.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {

// Returns the state of an updated tensor. `weights`: the type of the updated weights, which the
// moments have too.
[[nodiscard]] std::vector<OptimizerState> optimizer_states(const OptimizerSpec& spec,
                                                           OptimizerImplementation implementation,
                                                           const FrameworkRules& rules,
                                                           const UpdatedTensor& tensor,
                                                           DType weights, bool master_weights);

// Returns for each parameter whether Muon orthogonalises its update: a matrix (kernels of a
// convolution are one row per output channel) that is neither an embedding nor the last one that
// forward multiplies by.
[[nodiscard]] IdVector<ParameterId, char> muon_matrices(const TrainingGraph& graph);

}  // namespace tidemark
