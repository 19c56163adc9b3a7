// nn.LSTM, nn.GRU and nn.RNN where PyTorch computes them step by step (ATen/native/RNN.cpp, CPU):
// becomes the nodes that autograd sees, so that their memory follows from each node's own rules.
#pragma once

#include "graph/ir/graph.hpp"

namespace tidemark {

// Replaces the nodes of recurrent layers by those of their steps. Layers of very many steps stay
// one node each.
[[nodiscard]] Graph unroll_recurrence(const Graph& graph);

}  // namespace tidemark
