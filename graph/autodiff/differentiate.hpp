// Differentiation: makes one training step, without its optimizer, of the forward graph.
#pragma once

#include "graph/autodiff/differentiate_options.hpp"
#include "graph/autodiff/stage_boundary.hpp"
#include "graph/ir/graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "graph/operators/framework.hpp"

namespace tidemark {

// Emits forward kernels in node order, then backward nodes in descending order of forward sequence
// number, as PyTorch's engine does; the gradient of a parameter is accumulated as soon as all of
// its uses have contributed. Without a loss in the graph only forward is emitted.
//
// Lifetimes (held only if rules.holds): a backward node keeps its incoming gradients and saved
// tensors until it returns; the loss lives until the end of the step; the model's outputs live
// until the loss is computed; .grad lives until zero_grad.
[[nodiscard]] TrainingGraph differentiate(const Graph& graph, const FrameworkRules& rules,
                                          const DifferentiateOptions& options);
// Differentiates a pipeline's chunk, whose boundary `options` name; backward starts from the
// gradients that are received. `transfers` receives the storages that are sent and received.
[[nodiscard]] TrainingGraph differentiate(const Graph& graph, const FrameworkRules& rules,
                                          const DifferentiateOptions& options,
                                          StageTransfers& transfers);

}  // namespace tidemark
