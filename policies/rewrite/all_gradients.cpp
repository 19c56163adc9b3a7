#include "policies/rewrite/all_gradients.hpp"

#include <string>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace all_gradients_detail {
namespace {

IdVector<StorageId, char> written_in_backward(const TrainingGraph& graph) {
  IdVector<StorageId, char> written(graph.storages.size(), 0);
  for (const StepPart& part : graph.parts.all()) {
    if (!is_backward(part.kind) && !is_weight_backward(part.kind)) continue;
    for (const OperatorId id : part.operators) {
      for (const Touch& touch : graph.touches_of(id)) {
        if (touch.access != Access::kRead) written[touch.storage] = 1;
      }
    }
  }
  return written;
}

// Returns the storages that an operator ahead of the update makes `storage` of.
std::vector<StorageId> sources_of(const TrainingGraph& graph, StorageId storage) {
  std::vector<StorageId> sources;
  for (const OperatorId id : graph.part(PartKind::kOptimizer)) {
    bool makes = false;
    for (const Touch& touch : graph.touches_of(id))
      makes = makes || (touch.storage == storage && touch.access == Access::kCreate);
    if (!makes) continue;
    for (const Touch& touch : graph.touches_of(id)) {
      if (touch.access == Access::kRead) sources.push_back(touch.storage);
    }
  }
  return sources;
}

}  // namespace
}  // namespace all_gradients_detail

AllGradients all_gradients(const TrainingGraph& graph) {
  const IdVector<StorageId, char> written = all_gradients_detail::written_in_backward(graph);
  IdVector<StorageId, char> seen(graph.storages.size(), 0);
  AllGradients result;
  std::vector<StorageId> open;
  for (auto tensor = graph.updates.rbegin(); tensor != graph.updates.rend(); ++tensor)
    open.push_back(tensor->gradient);
  while (!open.empty()) {
    const StorageId storage = open.back();
    open.pop_back();
    if (seen[storage] != 0) continue;
    seen[storage] = 1;
    if (written[storage] == 0) {
      const std::vector<StorageId> sources = all_gradients_detail::sources_of(graph, storage);
      open.insert(open.end(), sources.rbegin(), sources.rend());
      continue;
    }
    const Storage& gradient = graph.storages[storage];
    result.storages.push_back(storage);
    result.elements.push_back(gradient.elements);
    result.bytes += gradient.bytes;
  }
  return result;
}

void check_gradients_wait(const TrainingGraph& graph, std::string_view key,
                          std::string_view reason) {
  if (!graph.updates_in_backward) return;
  throw UserError({}, std::string(key),
                  fmt::format("does not go with optimizer_in_backward: {}, and gradients are "
                              "consumed one by one; leave one of them out",
                              reason));
}

OperatorId add_before_optimizer(TrainingGraph& graph, std::string_view name,
                                const std::vector<Touch>& touches, const Work& work) {
  Operator op{.part = OperatorPart::kUpdate, .phase = Phase::kOptimizer, .work = work};
  op.name = name;
  const OperatorId id = graph.add_operator(std::move(op), touches);
  graph.part(PartKind::kBeforeOptimizer).push_back(id);
  return id;
}

}  // namespace tidemark
