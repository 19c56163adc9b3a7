// Splits backward into the gradients of activations and those of weights, as zero-bubble schedules
// run them (Qi et al. 2023).
//
//   backward           dx3 dw3 dx2 dw2 dx1 dw1          send dx1 at the end
//   backward           dx3 dx2 dx1                      sent before any weight gradient
//   backward_weight    dw3 dw2 dw1                      any time later
//
// The saved activation and the gradient of the output, which a weight gradient reads, live until
// then. Kernels that make both at once, such as those of norms, stay in backward.
#pragma once

#include "graph/ir/training_graph.hpp"

namespace tidemark {

// Splits the backward of every chunk in all its forms.
void split_backward(TrainingGraph& graph);

}  // namespace tidemark
