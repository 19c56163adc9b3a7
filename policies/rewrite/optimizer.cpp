#include "policies/rewrite/optimizer.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "policies/rewrite/backward_update.hpp"
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

// Adds the update of parameters whose gradients are there: of matrices and of all others, where
// the optimizer tells them apart.
void Optimizer::build(TrainingGraph& graph, const ParameterUses& uses,
                      const std::vector<const UpdatedTensor*>& group) const {
  const OptimizerAlgorithm& algorithm = *spec_.kind;
  if (algorithm.takes == nullptr) {
    OptimizerStep(graph, spec_, precision_, rules_, uses).build(group);
    return;
  }
  std::vector<const UpdatedTensor*> taken;
  std::vector<const UpdatedTensor*> others;
  for (const UpdatedTensor* tensor : group) {
    const bool takes = algorithm.takes(spec_, tensor->shape, use_of(uses, *tensor));
    (takes ? taken : others).push_back(tensor);
  }
  OptimizerStep(graph, spec_, precision_, rules_, uses).build(taken);
  OptimizerSpec beside = spec_;
  beside.kind = &algorithm.beside_matrices();
  OptimizerStep(graph, beside, precision_, rules_, uses).build(others);
}

// Compensation and random rounding are for weights of 16 bits that have no fp32 masters.
void Optimizer::check_rounding(const TrainingGraph& graph) const {
  if (!spec_.kahan && !spec_.stochastic_rounding) return;
  const bool rounds = std::any_of(graph.updates.begin(), graph.updates.end(),
                                  [](const UpdatedTensor& t) { return bits_of(t.dtype) < 32; });
  if (rounds && !precision_.master_weights) return;
  throw UserError(
      {}, "training.optimizer",
      fmt::format(
          "{} is for 16-bit weights without masters, but training.precision {} updates fp32 "
          "weights; write precision: bf16 or leave it out",
          spec_.kahan ? "kahan" : "stochastic_rounding", precision_.name));
}

// Gives each tensor an optimizer of its own, which runs in backward.
void Optimizer::build_in_backward(TrainingGraph& graph, const ParameterUses& uses) const {
  std::vector<TensorUpdate> updates;
  const auto taken_from = [&](PartKind kind, std::size_t before) {
    std::vector<OperatorId>& part = graph.part(kind);
    const auto begin = part.begin() + static_cast<std::ptrdiff_t>(before);
    std::vector<OperatorId> added(begin, part.end());
    part.erase(begin, part.end());
    return added;
  };
  for (const UpdatedTensor& tensor : graph.updates) {
    if (tensor.updated_by == Executor::kHost) {
      throw UserError({}, "policies.optimizer_in_backward",
                      "does not go with offload_optimizer: the host updates many parameters in one "
                      "kernel behind backward; leave one of them out");
    }
    const std::size_t first = graph.part(PartKind::kOptimizerFirst).size();
    const std::size_t step = graph.part(PartKind::kOptimizer).size();
    build(graph, uses, {&tensor});
    updates.push_back({.tensor = &tensor,
                       .first = taken_from(PartKind::kOptimizerFirst, first),
                       .step = taken_from(PartKind::kOptimizer, step)});
  }
  update_in_backward(graph, std::move(updates));
}

void Optimizer::apply(TrainingGraph& graph, const RewriteContext& /*context*/) const {
  check_rounding(graph);
  const ParameterUses uses = parameter_uses(graph);
  if (graph.updates_in_backward) return build_in_backward(graph, uses);
  std::vector<const UpdatedTensor*> order = optimizer_detail::updates_of(graph);
  // Host first: the device's part of the step runs beside it.
  const auto on_device = std::stable_partition(
      order.begin(), order.end(),
      [](const UpdatedTensor* t) { return t->updated_by == Executor::kHost; });
  for (auto begin = order.begin(); begin != on_device;) {
    const auto end = std::find_if(begin, on_device, [&](const UpdatedTensor* t) {
      return t->update_group != (*begin)->update_group;
    });
    OptimizerStep(graph, spec_, precision_, rules_, uses).build_on_host({begin, end});
    begin = end;
  }
  order.erase(order.begin(), on_device);
  // Groups one after another: what makes the gradients of one runs right before its update.
  std::vector<OperatorId>& part = graph.part(PartKind::kOptimizer);
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(begin, order.end(), [&](const UpdatedTensor* t) {
      return t->update_group != (*begin)->update_group;
    });
    const std::vector<const UpdatedTensor*> group(begin, end);
    const std::vector<OperatorId> makers = optimizer_detail::take_makers(graph, group, part);
    part.insert(part.end(), makers.begin(), makers.end());
    build(graph, uses, group);
    begin = end;
  }
  for (const ParameterId id : ids_of(graph.parameters)) {
    if (graph.parameters[id].trained && !graph.parameters[id].gradient.valid()) {
      OptimizerStep(graph, spec_, precision_, rules_, uses)
          .add_states_from_start(whole_update(graph, id));
    }
  }
}

}  // namespace tidemark
