#include "policies/solver/main_path.hpp"

#include <cstddef>

namespace tidemark {

void mark_aside(const TrainingGraph& graph, std::span<const OperatorId> ops,
                std::span<const CostNodeId> node_of, StepCosts& costs) {
  IdVector<NodeId, char> differentiated;
  for (const OperatorId id : ops) {
    const Operator& op = graph.operators[id];
    if (op.phase != Phase::kBackward || !op.node.valid()) continue;
    if (op.node.index() >= differentiated.size()) differentiated.resize(op.node.index() + 1, 0);
    differentiated[op.node] = 1;
  }
  IdVector<StorageId, char> of_samples(graph.storages.size(), 0);
  IdVector<StorageId, char> has_gradient(graph.storages.size(), 0);
  for (const StorageId s : ids_of(graph.storages))
    of_samples[s] = graph.storages[s].role == Role::kInput ? 1 : 0;
  IdVector<CostNodeId, char> on_the_way(costs.graph.nodes.size(), 0);
  CostNodeId last;  // forward node that makes or changes the loss
  for (std::size_t at = 0; at < ops.size(); ++at) {
    const Operator& op = graph.operators[ops[at]];
    if (op.phase != Phase::kForward) continue;
    bool sampled = false;
    bool trained =
        op.node.valid() && op.node.index() < differentiated.size() && differentiated[op.node] != 0;
    for (const Touch& touch : graph.touches_of(ops[at])) {
      const bool needs = touch.access == Access::kRead || touch.access == Access::kMutate;
      sampled = sampled || (needs && of_samples[touch.storage] != 0);
      trained = trained || (needs && has_gradient[touch.storage] != 0);
    }
    for (const Touch& touch : graph.touches_of(ops[at])) {
      if (touch.access == Access::kRead) continue;
      of_samples[touch.storage] = sampled ? 1 : 0;
      has_gradient[touch.storage] = trained ? 1 : 0;
      if (touch.storage == graph.loss) last = node_of[at];
    }
    if (sampled && trained) on_the_way[node_of[at]] = 1;
  }
  if (!last.valid()) return;
  // Nodes that are parts of a node's results are on the main path if the node is.
  IdVector<CostNodeId, char> leads_on(costs.graph.nodes.size(), 0);
  leads_on[last] = 1;
  for (std::size_t i = last.index() + 1; i-- > 0;) {
    const CostNodeId id(i);
    CostNode& node = costs.graph.nodes[id];
    if (leads_on[id] == 0) continue;
    for (const CostNodeId dep : node.deps)
      leads_on[dep] = 1;
  }
  for (const CostNodeId id : ids_of(costs.graph.nodes)) {
    CostNode& node = costs.graph.nodes[id];
    if (node.kind != Phase::kForward) continue;
    if (costs.operators[id].empty() && !node.deps.empty())
      on_the_way[id] = on_the_way[node.deps.front()];
    node.aside = on_the_way[id] == 0 || leads_on[id] == 0;
  }
}

}  // namespace tidemark
