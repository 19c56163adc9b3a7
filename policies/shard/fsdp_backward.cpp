#include <algorithm>

#include "policies/shard/sharded_step.hpp"
#include "policies/shard/sharded_tensors.hpp"

namespace tidemark::sharding {

// Compute waits for the reduction of a unit, whose input then goes.
OperatorId ShardedStep::add_wait(const Unit& unit) {
  return add_mark(OperatorPart::kRelease, Phase::kBackward, {unit.reduction, unit.gradient});
}

std::vector<OperatorId> ShardedStep::reduction_of(Unit& unit, Gradients gradients) {
  std::vector<OperatorId> operators;
  const int ranks = unit.ranks.shard;
  const Elements whole(unit.reduced.count * ranks);
  std::vector<Touch> copy;
  for (const StorageId made : unit.made)
    copy.push_back({made, Access::kRead});
  if (flat()) {
    // Autograd puts the flat gradient together from those of the views.
    const StorageId joined =
        add_tensor(graph_, unit.name + ".flat_gradient", unit.compute, whole, Role::kGradient);
    copy.push_back({joined, Access::kCreate});
    operators.push_back(add_copy(graph_, "join_gradients", Phase::kBackward, copy));
    copy = {{joined, Access::kRead}};
    unit.reduction = joined;
  }
  if (!flat() || unit.reduce_type != unit.compute) {
    unit.reduction = add_buffer(unit.name + ".reduction", unit.reduce_type, whole);
    copy.push_back({unit.reduction, Access::kCreate});
    operators.push_back(add_copy(graph_, "copy_in", Phase::kBackward, copy));
  }
  const bool direct = gradients == Gradients::kFresh && unit.reduce_type == kept_as_;
  StorageId output = unit.gradient;
  if (!direct) output = add_buffer(unit.name + ".reduced", unit.reduce_type, unit.reduced);
  operators.push_back(add_collective(graph_, CollectiveKind::kReduceScatter, MeshDimension::kShard,
                                     Phase::kBackward, unit.reduce_type,
                                     bytes_of(unit.reduce_type, whole),
                                     {{unit.reduction, Access::kRead}, {output, Access::kCreate}},
                                     taking_part(ranks, MeshDimension::kShard)));
  if (unit.ranks.replicas > 1) {
    operators.push_back(add_collective(
        graph_, CollectiveKind::kAllReduce, MeshDimension::kReplicate, Phase::kBackward,
        unit.reduce_type, bytes_of(unit.reduce_type, unit.reduced), {{output, Access::kMutate}},
        taking_part(unit.ranks.replicas, MeshDimension::kReplicate)));
  }
  if (!direct) {
    const bool fresh = gradients == Gradients::kFresh;
    operators.push_back(add_copy(
        graph_, fresh ? "cast_gradient" : "accumulate_gradient", Phase::kBackward,
        {{output, Access::kRead}, {unit.gradient, fresh ? Access::kCreate : Access::kMutate}}));
  }
  return operators;
}

std::vector<OperatorId> ShardedStep::reduced(const std::vector<OperatorId>& part,
                                             Gradients gradients) {
  const std::vector<UnitVisit> visits = unit_visits(graph_, units_, part, unit_of_);
  std::vector<std::size_t> order;
  for (std::size_t u = 0; u < tensors_.size(); ++u) {
    if (visits[u].happens) order.push_back(u);
  }
  Insertions insert(part.size());
  for (const std::size_t u : order) {
    const Unit& unit = tensors_[u];
    if (unit.full.empty()) continue;
    std::vector<StorageId> used = unit.full;
    if (!unit.kept && unit.gathered.valid()) used.push_back(unit.gathered);
    insert.before[visits[u].first].push_back(
        add_mark(OperatorPart::kUseGathered, Phase::kBackward, used));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return visits[a].last < visits[b].last; });
  const Unit* before = nullptr;
  for (const std::size_t u : order) {
    Unit& unit = tensors_[u];
    std::vector<OperatorId>& end = insert.after[visits[u].last];
    if (!unit.full.empty())
      end.push_back(add_mark(OperatorPart::kRelease, Phase::kBackward, unit.full));
    if (!unit.gradient.valid()) continue;
    if (before != nullptr && !flat()) end.push_back(add_wait(*before));
    const std::vector<OperatorId> reduction = reduction_of(unit, gradients);
    end.insert(end.end(), reduction.begin(), reduction.end());
    before = &unit;
  }
  // Compute goes on when the last reduction is over.
  if (before != nullptr) insert.at_end.push_back(add_wait(*before));
  return insert.into(part);
}

}  // namespace tidemark::sharding
