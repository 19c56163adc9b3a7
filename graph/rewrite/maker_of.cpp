#include "graph/rewrite/maker_of.hpp"

#include <algorithm>
#include <vector>

namespace tidemark {

NodeId maker_of(const Graph& graph, TensorId tensor) {
  for (NodeId id : ids_of(graph.nodes)) {
    const std::vector<TensorId>& outputs = graph.nodes[id].outputs;
    if (std::find(outputs.begin(), outputs.end(), tensor) != outputs.end()) return id;
  }
  return {};
}

}  // namespace tidemark
