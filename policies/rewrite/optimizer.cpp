#include "policies/rewrite/optimizer.hpp"

#include <algorithm>
#include <vector>

#include "policies/rewrite/optimizer_states.hpp"
#include "policies/rewrite/optimizer_step.hpp"

namespace tidemark {
namespace optimizer_detail {
namespace {

// Returns parameters in the order of model.parameters(), which is that of creation; backward goes
// the other way.
std::vector<const Parameter*> in_order(const TrainingGraph& graph) {
  std::vector<const Parameter*> order;
  for (ParameterId id : graph.trained)
    order.push_back(&graph.parameters[id]);
  std::sort(order.begin(), order.end(),
            [](const Parameter* a, const Parameter* b) { return a->updated < b->updated; });
  return order;
}

}  // namespace
}  // namespace optimizer_detail

void Optimizer::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  std::vector<const Parameter*> order = optimizer_detail::in_order(graph);
  // Host first: the device's part of the step runs beside it.
  const auto on_device = std::stable_partition(order.begin(), order.end(), [](const Parameter* t) {
    return t->updated_by == Executor::kHost;
  });
  for (auto begin = order.begin(); begin != on_device;) {
    const auto end = std::find_if(begin, on_device, [&](const Parameter* t) {
      return t->update_group != (*begin)->update_group;
    });
    OptimizerStep(graph, spec_, precision_, rules_).build_on_host({begin, end});
    begin = end;
  }
  order.erase(order.begin(), on_device);
  if (spec_.kind->beside_matrices == nullptr) {
    OptimizerStep(graph, spec_, precision_, rules_).build(order);
    for (const Parameter& parameter : graph.parameters) {
      if (parameter.trained && !parameter.gradient.valid()) {
        OptimizerStep(graph, spec_, precision_, rules_).add_states_from_start(parameter);
      }
    }
    return;
  }
  const IdVector<ParameterId, char> chosen = muon_matrices(graph);
  std::vector<const Parameter*> matrices;
  std::vector<const Parameter*> others;
  for (const Parameter* trained : order) {
    const auto index = static_cast<std::size_t>(trained - graph.parameters.data());
    (chosen[ParameterId(index)] != 0 ? matrices : others).push_back(trained);
  }
  OptimizerStep(graph, spec_, precision_, rules_).build(matrices);
  OptimizerSpec beside = spec_;
  beside.kind = &spec_.kind->beside_matrices();
  OptimizerStep(graph, beside, precision_, rules_).build(others);
}

}  // namespace tidemark
