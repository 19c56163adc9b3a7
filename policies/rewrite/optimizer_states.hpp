// What an optimizer keeps of each parameter from step to step.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "graph/autodiff/framework.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/rewrite/optimizer_spec.hpp"

namespace tidemark {

struct OptimizerStateTensor {
  char letter;  // optimizer_kernels.hpp
  std::string_view suffix;
  Bytes bytes;
  bool from_start = false;  // made with the optimizer rather than in its first step
};

// `weights`: the type of what is updated, which is that of the moments. Sources: torch.optim for
// the names that it has; bitsandbytes' Optimizer2State for adamw_8bit (blocks of 2,048 elements
// with one fp32 scale each, fp32 moments below 4,096 elements); transformers' Adafactor without a
// first moment (rows, columns and one number, the parameter's root mean square); google/automl's
// Lion; Jordan's Muon.
[[nodiscard]] std::vector<OptimizerStateTensor> optimizer_states(
    const OptimizerSpec& spec, OptimizerImplementation implementation, const FrameworkRules& rules,
    const TrainedParameter& parameter, DType weights, bool master_weights);

// Whether Muon orthogonalises the update of a parameter: a matrix (kernels of a convolution are one
// row per output channel) that is neither an embedding nor the last one that forward multiplies by.
// One flag per entry of graph.trained.
[[nodiscard]] std::vector<char> muon_matrices(const TrainingGraph& graph);

// Bytes that are alive at once while Newton and Schulz's iteration orthogonalises a matrix of n
// elements and m rows or columns, whichever are fewer, in bf16: the old X, a X, (b A + c A A) X and
// their sum, and the two m by m matrices: 4 * 2 n + 2 * 2 m m.
[[nodiscard]] Bytes newton_schulz_bytes(const Shape& shape);
[[nodiscard]] Flops newton_schulz_flops(const Shape& shape);

}  // namespace tidemark
