// Looks up the node that makes a tensor.
#pragma once

#include "graph/ir/graph.hpp"

namespace tidemark {

// Returns the node that has the tensor among its outputs; invalid for a root. Looks at every node:
// find_sites() has a table for callers that ask about many tensors.
[[nodiscard]] NodeId maker_of(const Graph& graph, TensorId tensor);

}  // namespace tidemark
