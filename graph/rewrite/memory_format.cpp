#include "graph/rewrite/memory_format.hpp"

#include "graph/rewrite/graph_copy.hpp"

namespace tidemark {

Graph in_channels_last(const Graph& graph) {
  IdVector<TensorId, char> made(graph.tensors.size(), 0);
  for (const Node& node : graph.nodes) {
    for (const TensorId output : node.outputs)
      made[output] = 1;
  }
  GraphCopy copy(graph);
  for (const TensorId id : ids_of(graph.tensors)) {
    const Tensor& tensor = graph.tensors[id];
    if (made[id] == 0 && tensor.shape.rank() >= 4 && tensor.is_contiguous())
      copy.order_root(id, channels_last_strides(tensor.shape));
  }
  return rewrite_graph(copy, [](GraphCopy& to, NodeId id) { to.keep(id); });
}

}  // namespace tidemark
