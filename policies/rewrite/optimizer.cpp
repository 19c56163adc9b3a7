#include "policies/rewrite/optimizer.hpp"

#include <algorithm>
#include <vector>

#include "policies/rewrite/optimizer_states.hpp"
#include "policies/rewrite/optimizer_step.hpp"

namespace tidemark {
namespace optimizer_detail {
namespace {

// Takes what makes the gradients of some tensors out of the operators that a rewrite has added
// ahead of the update.
std::vector<OperatorId> take_makers(const TrainingGraph& graph,
                                    const std::vector<const UpdatedTensor*>& updates,
                                    std::vector<OperatorId>& prepared) {
  const auto makes_one = [&](OperatorId id) {
    for (const Touch& touch : graph.touches_of(id)) {
      if (touch.access != Access::kCreate) continue;
      for (const UpdatedTensor* tensor : updates) {
        if (tensor->gradient == touch.storage) return true;
      }
    }
    return false;
  };
  const auto rest = std::stable_partition(prepared.begin(), prepared.end(),
                                          [&](OperatorId id) { return !makes_one(id); });
  std::vector<OperatorId> makers(rest, prepared.end());
  prepared.erase(rest, prepared.end());
  return makers;
}

std::vector<const UpdatedTensor*> updates_of(const TrainingGraph& graph) {
  std::vector<const UpdatedTensor*> updates;
  for (const UpdatedTensor& tensor : graph.updates)
    updates.push_back(&tensor);
  return updates;
}

}  // namespace
}  // namespace optimizer_detail

void Optimizer::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  std::vector<const UpdatedTensor*> order = optimizer_detail::updates_of(graph);
  // Host first: the device's part of the step runs beside it.
  const auto on_device = std::stable_partition(
      order.begin(), order.end(),
      [](const UpdatedTensor* t) { return t->updated_by == Executor::kHost; });
  for (auto begin = order.begin(); begin != on_device;) {
    const auto end = std::find_if(begin, on_device, [&](const UpdatedTensor* t) {
      return t->update_group != (*begin)->update_group;
    });
    OptimizerStep(graph, spec_, precision_, rules_).build_on_host({begin, end});
    begin = end;
  }
  order.erase(order.begin(), on_device);
  if (spec_.kind->beside_matrices == nullptr) {
    // Groups one after another: what makes the gradients of one runs right before its update.
    std::vector<OperatorId>& part = graph.part(PartKind::kOptimizer);
    for (auto begin = order.begin(); begin != order.end();) {
      const auto end = std::find_if(begin, order.end(), [&](const UpdatedTensor* t) {
        return t->update_group != (*begin)->update_group;
      });
      const std::vector<const UpdatedTensor*> group(begin, end);
      const std::vector<OperatorId> makers = optimizer_detail::take_makers(graph, group, part);
      part.insert(part.end(), makers.begin(), makers.end());
      OptimizerStep(graph, spec_, precision_, rules_).build(group);
      begin = end;
    }
    for (const ParameterId id : ids_of(graph.parameters)) {
      if (graph.parameters[id].trained && !graph.parameters[id].gradient.valid()) {
        OptimizerStep(graph, spec_, precision_, rules_)
            .add_states_from_start(whole_update(graph, id));
      }
    }
    return;
  }
  const IdVector<ParameterId, char> chosen = muon_matrices(graph);
  std::vector<const UpdatedTensor*> matrices;
  std::vector<const UpdatedTensor*> others;
  for (const UpdatedTensor* trained : order) {
    const bool matrix = trained->parameter.valid() && chosen[trained->parameter] != 0;
    (matrix ? matrices : others).push_back(trained);
  }
  OptimizerStep(graph, spec_, precision_, rules_).build(matrices);
  OptimizerSpec beside = spec_;
  beside.kind = &spec_.kind->beside_matrices();
  OptimizerStep(graph, beside, precision_, rules_).build(others);
}

}  // namespace tidemark
