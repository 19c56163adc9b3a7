// From the forward graph to one training step without its optimizer.
#pragma once

#include "graph/autodiff/framework.hpp"
#include "graph/ir/graph.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

struct DifferentiateOptions {
  // The caller keeps what the model returned until the end of the step.
  bool hold_output = false;
  // Gradients of parameters are kept in this type; nullopt: in the parameter's own.
  std::optional<DType> gradient_dtype;
};

// Emits forward kernels in node order, then backward nodes in descending order of forward sequence
// number, as PyTorch's engine does; the gradient of a parameter is accumulated as soon as all of
// its uses have contributed. Without a loss in the graph only forward is emitted.
//
// Lifetimes (held only where rules.holds): a backward node keeps its incoming gradients and saved
// tensors until it returns; the loss lives until the end of the step; what the model returns until
// the loss is computed; .grad until zero_grad.
[[nodiscard]] TrainingGraph differentiate(const Graph& graph, const FrameworkRules& rules,
                                          const DifferentiateOptions& options);

// A hash of which parameter gradients are produced and from what: two graphs with the same
// fingerprint train the same parameters by the same kernels. Rewrites that must not change the
// result are tested with it.
[[nodiscard]] std::uint64_t gradient_fingerprint(const TrainingGraph& graph);

}  // namespace tidemark
