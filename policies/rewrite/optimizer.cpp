#include "policies/rewrite/optimizer.hpp"

#include <algorithm>
#include <vector>

#include "policies/rewrite/optimizer_states.hpp"
#include "policies/rewrite/optimizer_step.hpp"

namespace tidemark {
namespace {

// In the order of model.parameters(), which is that of creation; backward goes the other way.
std::vector<const TrainedParameter*> in_order(const TrainingGraph& graph) {
  std::vector<const TrainedParameter*> order;
  for (const TrainedParameter& trained : graph.trained)
    order.push_back(&trained);
  std::sort(order.begin(), order.end(), [](const TrainedParameter* a, const TrainedParameter* b) {
    return a->parameter < b->parameter;
  });
  return order;
}

}  // namespace

void Optimizer::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  std::vector<const TrainedParameter*> order = in_order(graph);
  // Host first: the device's part of the step runs beside it.
  const auto on_device = std::stable_partition(
      order.begin(), order.end(),
      [](const TrainedParameter* t) { return t->updated_by == Executor::kHost; });
  for (auto begin = order.begin(); begin != on_device;) {
    const auto end = std::find_if(begin, on_device, [&](const TrainedParameter* t) {
      return t->update_group != (*begin)->update_group;
    });
    OptimizerStep(graph, spec_, precision_, rules_).build_on_host({begin, end});
    begin = end;
  }
  order.erase(order.begin(), on_device);
  if (spec_.kind->beside_matrices == nullptr) {
    OptimizerStep(graph, spec_, precision_, rules_).build(order);
    return;
  }
  const std::vector<char> chosen = muon_matrices(graph);
  std::vector<const TrainedParameter*> matrices;
  std::vector<const TrainedParameter*> others;
  for (const TrainedParameter* trained : order) {
    const auto index = static_cast<std::size_t>(trained - graph.trained.data());
    (chosen[index] != 0 ? matrices : others).push_back(trained);
  }
  OptimizerStep(graph, spec_, precision_, rules_).build(matrices);
  OptimizerSpec beside = spec_;
  beside.kind = &spec_.kind->beside_matrices();
  OptimizerStep(graph, beside, precision_, rules_).build(others);
}

}  // namespace tidemark
