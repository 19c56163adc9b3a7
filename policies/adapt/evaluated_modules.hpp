// Modules in eval() inside a model that trains.
#pragma once

#include <functional>

#include "graph/rewrite/graph_copy.hpp"

namespace tidemark {

// Copies a node as a module in eval() runs it: dropout returns its input, batch norm uses its
// running statistics and leaves them as they are. The node keeps its place in autograd's graph.
void keep_evaluated(GraphCopy& copy, NodeId id);

}  // namespace tidemark
