#include "graph/rewrite/partition/partition_sites.hpp"

#include <algorithm>

#include "graph/operators/known_families.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace partition_sites_detail {
namespace {

// Whether the node's output has the content of its first input, in another shape or type, or
// capped.
bool keeps_content(const Node& node) {
  const OperatorFamily* family = node.family;
  return family == &view_family() || family == &reshape_family() || family == &cast_family() ||
         family == &contiguous_family() || family == &scale_family() ||
         family == &dropout_family() || family == find_family("tanh");
}

// Follows a tensor back to what has made its content.
TensorId content_of(const Graph& graph, const PartitionSites& sites, TensorId tensor) {
  while (sites.maker[tensor].valid() && keeps_content(graph.nodes[sites.maker[tensor]]))
    tensor = graph.nodes[sites.maker[tensor]].inputs.front();
  return tensor;
}

}  // namespace
}  // namespace partition_sites_detail

bool PartitionSites::indexed_by_input(const Graph& graph, NodeId embedding) const {
  const Node& node = graph.nodes[embedding];
  const TensorId indices = partition_sites_detail::content_of(graph, *this, node.inputs[0]);
  const Role role = graph.storages[graph.tensors[indices].storage].role;
  return role == Role::kInput && parameter[node.inputs[1]].valid();
}

StackedWeight PartitionSites::stacked_weight(const Graph& graph, NodeId product) const {
  const Node& node = graph.nodes[product];
  if (node.family != &bmm_family()) return {};
  const TensorId right = node.inputs[1];
  const NodeId turns = maker[right];
  if (!turns.valid() || graph.nodes[turns].family != &transpose_family()) return {};
  const TensorId weight = graph.nodes[turns].inputs.front();
  const bool alone = readers[right].size() == 1 && readers[weight].size() == 1;
  if (!parameter[weight].valid() || graph.tensors[weight].shape.rank() != 3 || !alone) return {};
  return {.weight = weight, .transpose = right};
}

PartitionSites find_sites(const Graph& graph) {
  PartitionSites sites;
  sites.readers.resize(graph.tensors.size());
  sites.maker.assign(graph.tensors.size(), NodeId());
  sites.parameter.assign(graph.tensors.size(), ParameterId());
  for (ParameterId id : ids_of(graph.parameters))
    sites.parameter[graph.parameters[id].tensor] = id;
  for (NodeId id : ids_of(graph.nodes)) {
    for (TensorId in : graph.nodes[id].inputs) {
      if (in.valid()) sites.readers[in].push_back(id);
    }
    for (TensorId out : graph.nodes[id].outputs)
      sites.maker[out] = id;
  }
  for (NodeId id : ids_of(graph.nodes)) {
    const Node& node = graph.nodes[id];
    if (node.family != &embedding_family() || !sites.indexed_by_input(graph, id)) continue;
    sites.vocabulary = std::max(sites.vocabulary, graph.tensors[node.inputs[1]].shape[0]);
  }
  if (graph.logits.valid()) {
    const TensorId made = partition_sites_detail::content_of(graph, sites, graph.logits);
    const NodeId maker = sites.maker[made];
    if (maker.valid() && graph.nodes[maker].family == &linear_family()) sites.logits = maker;
  }
  return sites;
}

}  // namespace tidemark
