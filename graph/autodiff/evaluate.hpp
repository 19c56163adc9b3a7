// A model in eval() under torch.no_grad(): the computation of a model that is not trained.
#pragma once

#include "graph/ir/graph.hpp"

namespace tidemark {

// Returns the graph as an evaluation runs it. Nothing requires a gradient, dropout returns its
// input, batch norm uses its running statistics and leaves them as they are. Operators that only
// lead to the loss are left out unless `with_loss`; the targets stay, as the loader delivers them
// all the same. Without autograd a value dies with its last variable: the caller's variable keeps
// what a block reads from outside until the block has returned.
[[nodiscard]] Graph evaluation_graph(Graph graph, bool with_loss);

// `x = block(x)`: adds the variables that keep what a block reads from outside until the block has
// returned, in each pass of a generation. They count for values that autograd does not follow.
void keep_inputs_of_blocks(Graph& graph);

}  // namespace tidemark
