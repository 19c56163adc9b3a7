// The state that an optimizer keeps of each parameter from step to step.
#pragma once

#include <span>
#include <vector>

#include "graph/ir/training_graph.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {

// `weights`: the type of what is updated, which is that of the moments.
[[nodiscard]] std::vector<OptimizerState> optimizer_states(const OptimizerSpec& spec,
                                                           OptimizerImplementation implementation,
                                                           const FrameworkRules& rules,
                                                           const Parameter& parameter,
                                                           DType weights, bool master_weights);

// Whether Muon orthogonalises the update of a parameter: a matrix (kernels of a convolution are one
// row per output channel) that is neither an embedding nor the last one that forward multiplies by.
[[nodiscard]] IdVector<ParameterId, char> muon_matrices(const TrainingGraph& graph);

}  // namespace tidemark
