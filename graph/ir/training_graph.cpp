#include "graph/ir/training_graph.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {

OperatorId TrainingGraph::add_operator(Operator op, std::span<const Touch> op_touches) {
  op.first_touch = static_cast<std::uint32_t>(touches.size());
  for (const Touch& touch : op_touches) {
    bool known = false;
    for (std::size_t i = op.first_touch; i < touches.size(); ++i) {
      if (touches[i].storage != touch.storage) continue;
      touches[i].access = std::max(touches[i].access, touch.access);
      known = true;
    }
    if (!known) touches.push_back(touch);
  }
  op.touch_count = static_cast<std::uint32_t>(touches.size()) - op.first_touch;
  return operators.push_back(std::move(op));
}

std::string TrainingGraph::describe(OperatorId id) const {
  const Operator& op = operators[id];
  const std::string_view layer = layer_name(op.layer);
  return layer.empty() ? op.name : fmt::format("{}: {}", layer, op.name);
}

Flops TrainingGraph::model_flops_of(std::span<const OperatorId> ids) const {
  Flops sum;
  for (OperatorId id : ids) {
    if (computes_model(operators[id].part)) sum += operators[id].work.flops;
  }
  return sum;
}

bool writes_persistent(const TrainingGraph& graph, OperatorId id) {
  for (const Touch& touch : graph.touches_of(id)) {
    if (touch.access != Access::kRead && graph.storages[touch.storage].persistent) return true;
  }
  return false;
}

namespace training_graph_detail {
namespace {

void check_part(const TrainingGraph& graph, PartKind kind, std::span<const OperatorId> operators,
                IdVector<StorageId, char>& written) {
  for (OperatorId id : operators) {
    if (!graph.operators.contains(id)) {
      throw InternalError(fmt::format("{}: operator {} does not exist", name_of(kind), id.value));
    }
    for (const Touch& touch : graph.touches_of(id)) {
      if (!graph.storages.contains(touch.storage)) {
        throw InternalError(fmt::format("{} touches storage {}, which does not exist",
                                        graph.describe(id), touch.storage.value));
      }
      const Storage& storage = graph.storages[touch.storage];
      if (touch.access == Access::kCreate) {
        if (storage.initial) {
          throw InternalError(fmt::format("{} creates '{}', which exists from the start",
                                          graph.describe(id), storage.name));
        }
        written[touch.storage] = 1;
      } else if (!storage.initial && written[touch.storage] == 0) {
        throw InternalError(fmt::format("{} uses '{}' before anything has created it",
                                        graph.describe(id), storage.name));
      }
    }
  }
}

void check_storages(const TrainingGraph& graph) {
  for (const Storage& storage : graph.storages) {
    const bool described = storage.dtype != DType::kByte || storage.elements.count != 0;
    if (described && storage.bytes != bytes_of(storage.dtype, storage.elements)) {
      throw InternalError(fmt::format("'{}' has {} bytes for {} elements of {}", storage.name,
                                      storage.bytes.count, storage.elements.count,
                                      name_of(storage.dtype)));
    }
  }
  for (const Parameter& parameter : graph.parameters) {
    if (!graph.storages.contains(parameter.storage)) {
      throw InternalError(fmt::format("parameter '{}' has no storage", parameter.name));
    }
  }
  for (const UpdatedTensor& tensor : graph.updates) {
    if (!graph.storages.contains(tensor.weights) || !graph.storages.contains(tensor.updated) ||
        !graph.storages.contains(tensor.gradient)) {
      throw InternalError(fmt::format("'{}' is updated without a storage", tensor.name));
    }
  }
  for (ParameterId id : graph.trained) {
    if (!graph.parameters.contains(id) || !graph.storages.contains(graph.parameters[id].gradient)) {
      throw InternalError("a trained parameter has no gradient");
    }
  }
}

// Throws InternalError unless an operator that recomputes in the place of another creates one of
// the storages that the other creates, and no part lists it.
void check_stand_ins(const TrainingGraph& graph) {
  IdVector<OperatorId, char> stands_in(graph.operators.size(), 0);
  for (const OperatorId id : ids_of(graph.operators)) {
    const OperatorId other = graph.operators[id].recomputed_by;
    if (!other.valid()) continue;
    const std::span<const Touch> own = graph.touches_of(id);
    const bool makes_some =
        graph.operators.contains(other) &&
        std::any_of(own.begin(), own.end(), [&](const Touch& touch) {
          const std::span<const Touch> theirs = graph.touches_of(other);
          return touch.access == Access::kCreate &&
                 std::any_of(theirs.begin(), theirs.end(), [&](const Touch& made) {
                   return made.storage == touch.storage && made.access == Access::kCreate;
                 });
        });
    if (!makes_some)
      throw InternalError(graph.describe(id) + " is recomputed by what makes nothing of it");
    stands_in[other] = 1;
  }
  for (const StepPart& part : graph.parts.all()) {
    for (const OperatorId id : part.operators) {
      if (stands_in[id] != 0)
        throw InternalError(graph.describe(id) + " recomputes and is in a part of the step");
    }
  }
}

}  // namespace
}  // namespace training_graph_detail

UpdatedTensor whole_update(const TrainingGraph& graph, ParameterId id) {
  const Parameter& parameter = graph.parameters[id];
  return {.name = parameter.name,
          .layer = parameter.layer,
          .shape = parameter.shape,
          .dtype = parameter.dtype,
          .elements = parameter.elements,
          .parameter = id,
          .weights = parameter.storage,
          .updated = parameter.storage,
          .gradient = parameter.gradient,
          .gradient_dtype = parameter.gradient_dtype};
}

void check_invariants(const TrainingGraph& graph) {
  IdVector<StorageId, char> written(graph.storages.size(), 0);
  // Zeros are written over gradients that an earlier step has made; backward goes through the
  // chunks of a pipeline from the last to the first, and through turns in their order.
  constexpr PartKind kOrder[] = {PartKind::kForward,
                                 PartKind::kBackwardFirst,
                                 PartKind::kBackward,
                                 PartKind::kForwardLater,
                                 PartKind::kBackwardWeight,
                                 PartKind::kBackwardAccumulate,
                                 PartKind::kBackwardWeightAccumulate,
                                 PartKind::kBackwardReduce,
                                 PartKind::kBackwardReduceFirst,
                                 PartKind::kBackwardWeightReduce,
                                 PartKind::kBeforeOptimizer,
                                 PartKind::kOptimizerFirst,
                                 PartKind::kOptimizer,
                                 PartKind::kAfterOptimizer,
                                 PartKind::kZeroGrad,
                                 PartKind::kEndOfStep};
  // A turn that stands alone adds to gradients that another one has made.
  for (const Parameter& parameter : graph.parameters) {
    const bool by_another = graph.turns == 1 && parameter.gradient.valid() &&
                            parameter.gradient_before == GradientBefore::kAlways;
    if (by_another) written[parameter.gradient] = 1;
  }
  std::uint16_t chunks = 1;
  for (const StepPart& part : graph.parts.all())
    chunks = std::max(chunks, static_cast<std::uint16_t>(part.chunk + 1));
  for (PartKind kind : kOrder) {
    const bool reversed = is_backward(kind) && graph.turns == 1;
    for (std::uint16_t i = 0; i < chunks; ++i) {
      const auto chunk = static_cast<std::uint16_t>(reversed ? chunks - 1 - i : i);
      training_graph_detail::check_part(graph, kind, graph.part(kind, chunk), written);
    }
  }
  training_graph_detail::check_storages(graph);
  training_graph_detail::check_stand_ins(graph);
  for (const Hold& hold : graph.holds) {
    if (!graph.storages.contains(hold.storage) || !graph.operators.contains(hold.until)) {
      throw InternalError("a hold names a storage or an operator that does not exist");
    }
  }
}

}  // namespace tidemark
