// model.to(memory_format=torch.channels_last): images and the filters of convolutions keep their
// shapes and lie in memory with the channels innermost. Every operator that keeps the order of its
// input then works in it.
#pragma once

#include "graph/ir/graph.hpp"

namespace tidemark {

// Returns the graph with its inputs and parameters of four axes or more in channels-last order.
[[nodiscard]] Graph in_channels_last(const Graph& graph);

}  // namespace tidemark
