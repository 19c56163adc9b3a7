#include "policies/solver/main_path.hpp"

#include <cstddef>

namespace tidemark {
namespace main_path_detail {
namespace {

// Tells what a value of forward depends on.
struct Origin {
  bool sampled = false;  // the samples
  bool trained = false;  // something with a gradient
};

// Forward nodes on the way from the samples to the loss.
struct ForwardPath {
  IdVector<CostNodeId, char> on_the_way;
  CostNodeId last;  // the node that makes or changes the loss
};

// Returns the autograd nodes with an operator of backward.
IdVector<NodeId, char> differentiated_nodes(const TrainingGraph& graph,
                                            std::span<const OperatorId> ops) {
  IdVector<NodeId, char> differentiated;
  for (const OperatorId id : ops) {
    const Operator& op = graph.operators[id];
    if (op.phase != Phase::kBackward || !op.node.valid()) continue;
    if (op.node.index() >= differentiated.size()) differentiated.resize(op.node.index() + 1, 0);
    differentiated[op.node] = 1;
  }
  return differentiated;
}

// Returns what the values that an operator reads or changes depend on.
Origin origin_of_inputs(const TrainingGraph& graph, OperatorId id,
                        const IdVector<StorageId, Origin>& origins) {
  Origin origin;
  for (const Touch& touch : graph.touches_of(id)) {
    if (touch.access != Access::kRead && touch.access != Access::kMutate) continue;
    origin.sampled = origin.sampled || origins[touch.storage].sampled;
    origin.trained = origin.trained || origins[touch.storage].trained;
  }
  return origin;
}

ForwardPath find_forward_path(const TrainingGraph& graph, std::span<const OperatorId> ops,
                              std::span<const CostNodeId> node_of, std::size_t nodes) {
  const IdVector<NodeId, char> differentiated = differentiated_nodes(graph, ops);
  IdVector<StorageId, Origin> origins(graph.storages.size());
  for (const StorageId s : ids_of(graph.storages))
    origins[s].sampled = graph.storages[s].role == Role::kInput;
  ForwardPath path{.on_the_way = IdVector<CostNodeId, char>(nodes, 0), .last = {}};
  for (std::size_t at = 0; at < ops.size(); ++at) {
    const Operator& op = graph.operators[ops[at]];
    if (op.phase != Phase::kForward) continue;
    Origin origin = origin_of_inputs(graph, ops[at], origins);
    if (op.node.valid() && op.node.index() < differentiated.size() && differentiated[op.node] != 0)
      origin.trained = true;
    for (const Touch& touch : graph.touches_of(ops[at])) {
      if (touch.access == Access::kRead) continue;
      origins[touch.storage] = origin;
      if (touch.storage == graph.loss) path.last = node_of[at];
    }
    if (origin.sampled && origin.trained) path.on_the_way[node_of[at]] = 1;
  }
  return path;
}

// Returns the nodes on which `last` depends, itself included.
IdVector<CostNodeId, char> nodes_leading_to(CostNodeId last, const CostGraph& graph) {
  IdVector<CostNodeId, char> leads_on(graph.nodes.size(), 0);
  leads_on[last] = 1;
  for (std::size_t i = last.index() + 1; i-- > 0;) {
    const CostNodeId id(i);
    if (leads_on[id] == 0) continue;
    for (const CostNodeId dep : graph.nodes[id].deps)
      leads_on[dep] = 1;
  }
  return leads_on;
}

}  // namespace
}  // namespace main_path_detail

void mark_off_main_path(const TrainingGraph& graph, std::span<const OperatorId> ops,
                        std::span<const CostNodeId> node_of, StepCosts& costs) {
  auto [on_the_way, last] =
      main_path_detail::find_forward_path(graph, ops, node_of, costs.graph.nodes.size());
  if (!last.valid()) return;
  const IdVector<CostNodeId, char> leads_on = main_path_detail::nodes_leading_to(last, costs.graph);
  // Nodes that are parts of a node's results are on the main path if the node is.
  for (const CostNodeId id : ids_of(costs.graph.nodes)) {
    CostNode& node = costs.graph.nodes[id];
    if (node.kind != Phase::kForward) continue;
    if (costs.operators[id].empty() && !node.deps.empty())
      on_the_way[id] = on_the_way[node.deps.front()];
    node.off_main_path = on_the_way[id] == 0 || leads_on[id] == 0;
  }
}

}  // namespace tidemark
