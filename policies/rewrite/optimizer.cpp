#include "policies/rewrite/optimizer.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
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
// ahead of the update, and what makes the tensors that those are made from.
std::vector<OperatorId> take_makers(const TrainingGraph& graph,
                                    const std::vector<const UpdatedTensor*>& updates,
                                    std::vector<OperatorId>& prepared) {
  IdVector<StorageId, char> wanted(graph.storages.size(), 0);
  for (const UpdatedTensor* tensor : updates)
    wanted[tensor->gradient] = 1;
  std::vector<OperatorId> makers;
  std::vector<OperatorId> rest;
  for (auto op = prepared.rbegin(); op != prepared.rend(); ++op) {
    const std::span<const Touch> touches = graph.touches_of(*op);
    const bool makes = std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
      return touch.access == Access::kCreate && wanted[touch.storage] != 0;
    });
    (makes ? makers : rest).push_back(*op);
    for (const Touch& touch : touches) {
      if (makes) wanted[touch.storage] = 1;
    }
  }
  prepared.assign(rest.rbegin(), rest.rend());
  return {makers.rbegin(), makers.rend()};
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
  std::vector<OperatorId>& part = graph.part(PartKind::kOptimizer);
  std::vector<OperatorId> makers = optimizer_detail::take_makers(graph, order, part);
  // Groups one after another: what makes the gradients of one runs right before its update, or
  // before the first of the groups that read the same.
  const auto prepare = [&](const std::vector<const UpdatedTensor*>& group) {
    const std::vector<OperatorId> own = optimizer_detail::take_makers(graph, group, makers);
    // What the first step alone refreshes comes before the part, and reads gradients, too.
    std::vector<OperatorId>& place =
        spec_.refresh > 1 ? graph.part(PartKind::kBeforeOptimizer) : part;
    place.insert(place.end(), own.begin(), own.end());
  };
  // Host first: the device's part of the step runs beside it.
  const auto on_device = std::stable_partition(
      order.begin(), order.end(),
      [](const UpdatedTensor* t) { return t->updated_by == Executor::kHost; });
  for (auto begin = order.begin(); begin != on_device;) {
    const auto end = std::find_if(begin, on_device, [&](const UpdatedTensor* t) {
      return t->update_group != (*begin)->update_group;
    });
    const std::vector<const UpdatedTensor*> group(begin, end);
    prepare(group);
    OptimizerStep(graph, spec_, precision_, rules_, uses).build_on_host(group);
    begin = end;
  }
  order.erase(order.begin(), on_device);
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(begin, order.end(), [&](const UpdatedTensor* t) {
      return t->update_group != (*begin)->update_group;
    });
    const std::vector<const UpdatedTensor*> group(begin, end);
    prepare(group);
    build(graph, uses, group);
    begin = end;
  }
  for (const ParameterId id : ids_of(graph.parameters)) {
    const Parameter& parameter = graph.parameters[id];
    if (parameter.trained && !parameter.gradient.valid() && !parameter.updated_elsewhere) {
      OptimizerStep(graph, spec_, precision_, rules_, uses)
          .add_states_from_start(whole_update(graph, id));
    }
  }
}

}  // namespace tidemark
