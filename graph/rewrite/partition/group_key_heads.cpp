#include "graph/rewrite/partition/group_key_heads.hpp"

#include <array>
#include <utility>
#include <vector>

#include "graph/operators/communication/ring_attention.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "graph/rewrite/partition/partition_sites.hpp"

namespace tidemark {
namespace group_key_heads_detail {
namespace {

// view [batch, heads, 1, length, width], expand, reshape: the nodes that repeat heads, last first.
std::vector<NodeId> repeats_of(const Graph& graph, const PartitionSites& sites, TensorId repeated) {
  const std::array steps = {&reshape_family(), &expand_family(), &view_family()};
  std::vector<NodeId> nodes;
  TensorId tensor = repeated;
  for (const OperatorFamily* step : steps) {
    const NodeId maker = sites.maker[tensor];
    const bool fits =
        maker.valid() && graph.nodes[maker].family == step && sites.readers[tensor].size() == 1;
    if (!fits) return {};
    nodes.push_back(maker);
    tensor = graph.nodes[maker].inputs.front();
  }
  const Shape& heads = graph.tensors[tensor].shape;
  const Shape& all = graph.tensors[repeated].shape;
  const bool repeats = heads.rank() == 4 && all.rank() == 4 && heads[0] == all[0] &&
                       heads[2] == all[2] && heads[3] == all[3] && all[1] % heads[1] == 0;
  return repeats ? nodes : std::vector<NodeId>();
}

}  // namespace
}  // namespace group_key_heads_detail

Graph group_key_heads(const Graph& graph) {
  const PartitionSites sites = find_sites(graph);
  IdVector<NodeId, char> skipped(graph.nodes.size(), 0);
  for (const Node& node : graph.nodes) {
    if (!is_attention(*node.family)) continue;
    const std::vector<NodeId> of_keys =
        group_key_heads_detail::repeats_of(graph, sites, node.inputs[1]);
    const std::vector<NodeId> of_values =
        group_key_heads_detail::repeats_of(graph, sites, node.inputs[2]);
    if (of_keys.empty() || of_values.empty()) continue;
    for (const std::vector<NodeId>& nodes : {of_keys, of_values}) {
      for (NodeId id : nodes)
        skipped[id] = 1;
    }
  }
  return rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
    if (skipped[id] == 0) {
      copy.keep(id);
    } else {
      copy.replace(id, std::array{copy.at(graph.nodes[id].inputs.front())});
    }
  });
}

}  // namespace tidemark
