#include "policies/shard/sharded_tensors.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tidemark {

StorageId add_tensor(TrainingGraph& graph, std::string name, DType type, Elements elements,
                     Role role) {
  Storage storage{
      .bytes = bytes_of(type, elements), .dtype = type, .elements = elements, .role = role};
  storage.name = std::move(name);
  return graph.storages.push_back(std::move(storage));
}

StorageId add_kept(TrainingGraph& graph, std::string name, DType type, Elements elements,
                   Role role) {
  const StorageId id = add_tensor(graph, std::move(name), type, elements, role);
  graph.storages[id].initial = graph.storages[id].persistent = true;
  return id;
}

StateRanks state_ranks(const Mesh& mesh, bool of_expert) {
  if (!of_expert || mesh.size(MeshDimension::kExpert) == 1) {
    return {.shard = mesh.size(MeshDimension::kShard),
            .replicas = mesh.size(MeshDimension::kReplicate)};
  }
  return {.shard = mesh.expert_shard(), .replicas = mesh.expert_replicas() / mesh.expert_shard()};
}

OperatorId add_collective(TrainingGraph& graph, CollectiveKind kind, MeshDimension group,
                          Phase phase, DType type, Bytes bytes, const std::vector<Touch>& touches,
                          int ranks, bool neighbours) {
  Operator op{.phase = phase,
              .work = {.op_class = OperatorClass::kCollective,
                       .dtype = type,
                       .read = bytes,
                       .written = bytes,
                       .collective = {.kind = kind,
                                      .group = group,
                                      .bytes = bytes,
                                      .ranks = ranks,
                                      .neighbours = neighbours}}};
  op.name = name_of(kind);
  return graph.add_operator(std::move(op), touches);
}

OperatorId add_copy(TrainingGraph& graph, std::string name, Phase phase,
                    const std::vector<Touch>& touches, std::optional<Bytes> moved) {
  Operator op{
      .name = std::move(name), .phase = phase, .work = {.op_class = OperatorClass::kElementwise}};
  for (const Touch& touch : touches) {
    const Storage& storage = graph.storages[touch.storage];
    if (touch.access == Access::kRead || touch.access == Access::kMutate)
      op.work.read += storage.bytes;
    if (touch.access != Access::kRead) {
      op.work.written += storage.bytes;
      op.work.dtype = storage.dtype;
    }
  }
  if (moved) op.work.read = op.work.written = *moved;
  return graph.add_operator(std::move(op), touches);
}

void gather_into(Storage& storage, Elements elements) {
  storage.role = Role::kGatheredParameter;
  storage.initial = storage.persistent = false;
  storage.one_per_rank = true;
  storage.elements = elements;
  storage.bytes = bytes_of(storage.dtype, elements);
}

RowShard row_shard(const Parameter& parameter, int ranks) {
  Shape shape = parameter.shape;
  if (shape.rank() == 0) shape = {parameter.elements.count};
  const std::int64_t rows = std::max<std::int64_t>(shape[0], 1);
  const std::int64_t width = parameter.elements.count / rows;
  const std::int64_t chunk = (rows + ranks - 1) / ranks;
  RowShard result{.stored = Elements(chunk * width),
                  .owned = Elements(std::min(rows, chunk) * width),
                  .shape = shape};
  result.shape[0] = std::min(rows, chunk);
  return result;
}

RowShard element_shard(const Parameter& parameter, int ranks) {
  const Elements part((parameter.elements.count + ranks - 1) / ranks);
  return {.stored = part, .owned = part, .shape = {part.count}};
}

void release_in_zero_grad(TrainingGraph& graph, const std::vector<StorageId>& gradients) {
  if (graph.part(PartKind::kZeroGrad).empty()) return;
  IdVector<StorageId, char> was_kept(graph.storages.size(), 0);
  for (const ParameterId id : graph.trained)
    was_kept[graph.parameters[id].gradient] = 1;
  OperatorId zero_grad;
  std::erase_if(graph.holds, [&](const Hold& hold) {
    const bool of_gradient =
        hold.kind == HoldKind::kLocal && !hold.since.valid() && was_kept[hold.storage] != 0;
    if (of_gradient) zero_grad = hold.until;
    return of_gradient;
  });
  if (!zero_grad.valid()) return;  // gradients persist
  for (const StorageId gradient : gradients)
    graph.holds.push_back({gradient, OperatorId(), zero_grad, HoldKind::kLocal});
}

void fill_in_zero_grad(TrainingGraph& graph, const std::vector<StorageId>& gradients) {
  std::vector<OperatorId>& zero = graph.part(PartKind::kZeroGrad);
  std::erase_if(zero, [&](OperatorId id) { return !graph.touches_of(id).empty(); });
  for (const StorageId gradient : gradients) {
    zero.push_back(graph.add_operator({.name = "zero_grad",
                                       .part = OperatorPart::kZeroGrad,
                                       .work = {.op_class = OperatorClass::kMemset,
                                                .dtype = graph.storages[gradient].dtype,
                                                .written = graph.storages[gradient].bytes}},
                                      std::array{Touch{gradient, Access::kOverwrite}}));
  }
}

}  // namespace tidemark
