#include <utility>

#include <fmt/format.h>

#include "policies/shard/sharded_tensors.hpp"
#include "policies/shard/state_shards.hpp"

namespace tidemark::sharding {

// The step joins this rank's gradients, converts them, updates its partition and gathers all.
void StateShards::update(const Group& group, int number) {
  const StorageId converted = on_host()
                                  ? StorageId()
                                  : add_tensor(graph_, group.prefix + "partition.grad",
                                               DType::kFloat32, group.partition, Role::kTemporary);
  const bool converts = type() != DType::kFloat32 && !on_host();
  const StorageId joined = converts ? add_tensor(graph_, group.prefix + "partition.grad_16", type(),
                                                 group.partition, Role::kTemporary)
                                    : converted;
  std::vector<Touch> parts{{joined, Access::kCreate}};
  std::int64_t left = group.partition.count;
  for (std::size_t i = group.first_piece; i < group.first_piece + group.pieces; ++i) {
    const Piece& piece = pieces_[i];
    const ParameterId id = parameters_[piece.member];
    const Parameter& parameter = graph_.parameters[id];
    parts.push_back({options_.stage == 1 ? parameter.gradient : piece.average, Access::kRead});
    const bool whole = piece.elements == parameter.elements;
    graph_.updates.push_back({.name = parameter.name,
                              .layer = parameter.layer,
                              .shape = whole ? parameter.shape : Shape{piece.elements.count},
                              .dtype = parameter.dtype,
                              .elements = piece.elements,
                              .parameter = id,
                              .weights = parameter.storage,
                              .updated = parameter.storage,
                              .gradient = on_host() ? piece.average : converted,
                              .gradient_dtype = on_host() ? type() : DType::kFloat32,
                              .update_group = number});
    left -= piece.elements.count;
  }
  if (left > 0) {
    UpdatedTensor rest = graph_.updates.back();
    rest.name = "padding";
    rest.padding = true;
    rest.shape = {left};
    rest.elements = Elements(left);
    rest.parameter = {};
    rest.weights = rest.updated = group.padding;
    graph_.updates.push_back(rest);
  }
  if (on_host()) return gather(group);
  std::vector<OperatorId>& step = graph_.part(PartKind::kOptimizer);
  const Bytes bytes = bytes_of(type(), group.partition);
  step.push_back(add_copy(graph_, "join_gradients", Phase::kOptimizer, parts, bytes));
  if (converts) {
    step.push_back(add_copy(graph_, "convert_gradient", Phase::kOptimizer,
                            {{joined, Access::kRead}, {converted, Access::kCreate}}));
  }
  gather(group);
}

void StateShards::gather(const Group& group) {
  std::vector<Touch> gathered;
  Bytes whole;
  for (const std::size_t member : group.members) {
    const StorageId weights = graph_.parameters[parameters_[member]].storage;
    gathered.push_back({weights, Access::kMutate});
    whole += graph_.storages[weights].bytes;
  }
  if (group.padding.valid()) {
    gathered.push_back({group.padding, Access::kMutate});
    whole += graph_.storages[group.padding].bytes;
  }
  const DType type = graph_.parameters[parameters_[group.members.front()]].dtype;
  graph_.part(PartKind::kAfterOptimizer)
      .push_back(add_collective(graph_, CollectiveKind::kAllGather, MeshDimension::kShard,
                                Phase::kOptimizer, type, whole, gathered,
                                taking_part(group.ranks.shard, MeshDimension::kShard)));
}

// Stage 3 updates groups of parameters one after another, each from gradients of its own in fp32.
void StateShards::update_sub_groups() {
  std::vector<OperatorId>& step = graph_.part(PartKind::kOptimizer);
  int group = 0;
  for (std::size_t first = 0; first < pieces_.size(); ++group) {
    Elements elements;
    std::size_t end = first;
    std::vector<Touch> converts;
    while (end < pieces_.size() && elements < options_.sub_group) {
      elements += pieces_[end].elements;
      converts.push_back({pieces_[end++].average, Access::kRead});
    }
    StorageId gradient;
    if (type() != DType::kFloat32 && !on_host()) {
      gradient = add_tensor(graph_, fmt::format("sub_group.{}.grad", group), DType::kFloat32,
                            elements, Role::kTemporary);
      converts.push_back({gradient, Access::kCreate});
      step.push_back(add_copy(graph_, "convert_gradients", Phase::kOptimizer, converts));
    }
    for (; first < end; ++first) {
      const Piece& piece = pieces_[first];
      const ParameterId id = parameters_[piece.member];
      const Parameter& parameter = graph_.parameters[id];
      graph_.updates.push_back({.name = parameter.name,
                                .layer = parameter.layer,
                                .shape = {piece.elements.count},
                                .dtype = parameter.dtype,
                                .elements = piece.elements,
                                .parameter = id,
                                .weights = shards_[id],
                                .updated = shards_[id],
                                .gradient = gradient.valid() ? gradient : piece.average,
                                .gradient_dtype = gradient.valid() ? DType::kFloat32 : type(),
                                .update_group = group});
    }
  }
  gather_persistent();
}

// Small parameters are brought together after each step and never freed.
void StateShards::gather_persistent() {
  for (const bool experts : {false, true}) {
    std::vector<Touch> touches;
    Bytes bytes;
    for (const ParameterId id : ids_of(graph_.parameters)) {
      const Storage& full = graph_.storages[graph_.parameters[id].storage];
      if (!full.persistent || full.role != Role::kGatheredParameter) continue;
      if (is_expert(id) != experts) continue;
      touches.push_back({shards_[id], Access::kRead});
      touches.push_back({graph_.parameters[id].storage, Access::kMutate});
      bytes += full.bytes;
    }
    if (touches.empty()) continue;
    const int ranks = state_ranks(mesh_, experts).shard;
    graph_.part(PartKind::kAfterOptimizer)
        .push_back(add_collective(graph_, CollectiveKind::kAllGather, MeshDimension::kShard,
                                  Phase::kOptimizer, graph_.parameters[parameters_.front()].dtype,
                                  bytes, touches, taking_part(ranks, MeshDimension::kShard)));
  }
}

}  // namespace tidemark::sharding
