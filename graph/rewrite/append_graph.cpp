#include "graph/rewrite/append_graph.hpp"

#include <algorithm>

namespace tidemark {
namespace append_graph_detail {
namespace {

void append_operators(TrainingGraph& result, const TrainingGraph& source, AppendedIds& ids) {
  const auto first_touch = static_cast<std::uint32_t>(result.touches.size());
  std::uint32_t first_node = 0;
  for (const Operator& op : result.operators) {
    if (op.node.valid()) first_node = std::max(first_node, op.node.value + 1);
  }
  ids.first_operator = static_cast<std::uint32_t>(result.operators.size());
  for (Operator op : source.operators) {
    op.first_touch += first_touch;
    if (op.node.valid()) op.node = NodeId(op.node.value + first_node);
    op.layer = ids.of(op.layer);
    op.recomputed_by = ids.of(op.recomputed_by);
    result.operators.push_back(std::move(op));
  }
  for (const Touch& touch : source.touches)
    result.touches.push_back({ids.of(touch.storage), touch.access});
  ids.first_hold = result.holds.size();
  for (const Hold& hold : source.holds) {
    result.holds.push_back(
        {ids.of(hold.storage), ids.of(hold.since), ids.of(hold.until), hold.kind});
  }
}

void append_parameters(TrainingGraph& result, const TrainingGraph& source, AppendedIds& ids) {
  for (const ParameterId id : ids_of(source.parameters)) {
    if (ids.parameters[id].valid()) continue;
    Parameter parameter = source.parameters[id];
    parameter.layer = ids.of(parameter.layer);
    parameter.storage = ids.of(parameter.storage);
    parameter.gradient = ids.of(parameter.gradient);
    parameter.ready_after = ids.of(parameter.ready_after);
    if (parameter.remaining) parameter.remaining->storage = ids.of(parameter.remaining->storage);
    ids.parameters[id] = result.parameters.push_back(std::move(parameter));
  }
}

void append_updates(TrainingGraph& result, const TrainingGraph& source, const AppendedIds& ids) {
  for (UpdatedTensor update : source.updates) {
    if (update.parameter.valid()) update.parameter = ids.parameters[update.parameter];
    update.layer = ids.of(update.layer);
    update.weights = ids.of(update.weights);
    update.updated = ids.of(update.updated);
    update.gradient = ids.of(update.gradient);
    result.updates.push_back(std::move(update));
  }
}

}  // namespace
}  // namespace append_graph_detail

void append_graph(TrainingGraph& result, const TrainingGraph& source, AppendedIds& ids) {
  append_graph_detail::append_operators(result, source, ids);
  append_graph_detail::append_parameters(result, source, ids);
  append_graph_detail::append_updates(result, source, ids);
  for (const ParameterId id : source.trained) {
    const ParameterId own = ids.parameters[id];
    if (std::find(result.trained.begin(), result.trained.end(), own) == result.trained.end())
      result.trained.push_back(own);
  }
  if (source.loss.valid()) result.loss = ids.of(source.loss);
  for (const StorageId id : source.module_state)
    result.module_state.push_back(ids.of(id));
  for (const StorageId id : source.leaves)
    result.leaves.push_back(ids.of(id));
  result.tensors += source.tensors;
}

}  // namespace tidemark
