#include <algorithm>
#include <utility>

#include "graph/core/errors.hpp"
#include "policies/shard/sharded_step.hpp"
#include "policies/shard/sharded_tensors.hpp"
#include "policies/shard/zero_options.hpp"

namespace tidemark::sharding {

// Compute waits for the reduction of a unit, whose input then goes.
OperatorId ShardedStep::add_wait(const Unit& unit, MicroBatch micro) {
  const StorageId sum = replicas_wait(unit) && !micro.last ? unit.partial : unit.gradient;
  return add_mark(OperatorPart::kRelease, Phase::kBackward, {unit.reduction, sum});
}

// Autograd puts the flat gradient of version 1 together from those of the views.
StorageId ShardedStep::join_gradients(Unit& unit, std::vector<OperatorId>& into) {
  const Elements whole(unit.reduced.count * unit.ranks.shard);
  const StorageId joined =
      add_tensor(graph_, unit.name + ".flat_gradient", unit.compute, whole, Role::kGradient);
  std::vector<Touch> copy;
  for (const StorageId made : unit.made)
    copy.push_back({made, Access::kRead});
  copy.push_back({joined, Access::kCreate});
  into.push_back(add_copy(graph_, "join_gradients", Phase::kBackward, copy));
  return joined;
}

// Adds the gradients that a micro-batch makes to those of full size: version 2 in the type of the
// reduction, version 1 in that of compute.
void ShardedStep::keep_gradients(Unit& unit, MicroBatch micro, std::vector<OperatorId>& into) {
  if (keeps_own_gradients(unit)) return;
  if (flat()) {
    const StorageId joined = join_gradients(unit, into);
    if (micro.first) {
      unit.kept_gradients = {joined};
      graph_.storages[joined].one_per_rank = true;
      return;
    }
    into.push_back(
        add_copy(graph_, "accumulate_gradient", Phase::kBackward,
                 {{joined, Access::kRead}, {unit.kept_gradients.front(), Access::kMutate}}));
    return;
  }
  for (std::size_t i = 0; i < unit.made.size(); ++i) {
    const Storage made = graph_.storages[unit.made[i]];
    if (micro.first) {
      unit.kept_gradients.push_back(add_tensor(graph_, made.name + ".accumulated", unit.reduce_type,
                                               made.elements, Role::kGradient));
      graph_.storages[unit.kept_gradients.back()].one_per_rank = true;
    }
    into.push_back(
        add_copy(graph_, micro.first ? "keep_gradient" : "accumulate_gradient", Phase::kBackward,
                 {{unit.made[i], Access::kRead},
                  {unit.kept_gradients[i], micro.first ? Access::kCreate : Access::kMutate}}));
  }
}

std::vector<OperatorId> ShardedStep::reduction_of(Unit& unit, MicroBatch micro) {
  std::vector<OperatorId> operators;
  std::vector<StorageId> sources = unit.kept_gradients.empty() ? unit.made : unit.kept_gradients;
  if (flat()) {
    if (unit.kept_gradients.empty()) sources = {join_gradients(unit, operators)};
    unit.reduction = sources.front();
  }
  if (!flat() || unit.reduce_type != unit.compute) {
    const Elements whole(unit.reduced.count * unit.ranks.shard);
    unit.reduction = add_buffer(unit.name + ".reduction", unit.reduce_type, whole);
    std::vector<Touch> copy;
    copy.reserve(sources.size() + 1);
    for (const StorageId source : sources)
      copy.push_back({source, Access::kRead});
    copy.push_back({unit.reduction, Access::kCreate});
    operators.push_back(add_copy(graph_, "copy_in", Phase::kBackward, copy));
    // Version 1 and DeepSpeed copy on the stream that reduces, version 2 where it computes.
    if (flat() || options_.zero != nullptr) graph_.operators[operators.back()].executor = reducer();
  }
  add_reduction(unit, micro, operators);
  return operators;
}

// The reduction, the sum over replicas and the sum with earlier micro-batches.
void ShardedStep::add_reduction(Unit& unit, MicroBatch micro, std::vector<OperatorId>& into) {
  const int ranks = unit.ranks.shard;
  const Elements whole(unit.reduced.count * ranks);
  const bool waits = replicas_wait(unit);
  const bool ends = !waits || micro.last;
  const bool fresh = micro.first || waits || unsynced();
  const bool direct = ends && fresh && unit.reduce_type == unit.kept_as;
  StorageId output = unit.gradient;
  if (waits && micro.first) {
    output = unit.partial =
        add_tensor(graph_, unit.name + ".partial", unit.reduce_type, unit.reduced, Role::kGradient);
    graph_.storages[unit.partial].one_per_rank = true;
  } else if (!direct) {
    output = add_buffer(unit.name + ".reduced", unit.reduce_type, unit.reduced);
  }
  into.push_back(add_collective(graph_, CollectiveKind::kReduceScatter, MeshDimension::kShard,
                                Phase::kBackward, unit.reduce_type,
                                bytes_of(unit.reduce_type, whole),
                                {{unit.reduction, Access::kRead}, {output, Access::kCreate}},
                                taking_part(ranks, MeshDimension::kShard)));
  if (waits && !micro.first) {
    const StorageId sum = ends ? output : unit.partial;
    const StorageId summand = ends ? unit.partial : output;
    into.push_back(add_copy(graph_, "add_partial", Phase::kBackward,
                            {{summand, Access::kRead}, {sum, Access::kMutate}}));
  }
  if (!ends) return;
  if (unit.ranks.replicas > 1) {
    into.push_back(add_collective(
        graph_, CollectiveKind::kAllReduce, MeshDimension::kReplicate, Phase::kBackward,
        unit.reduce_type, bytes_of(unit.reduce_type, unit.reduced), {{output, Access::kMutate}},
        taking_part(unit.ranks.replicas, MeshDimension::kReplicate)));
    // PyTorch's _all_reduce_state keeps it until backward is over.
    if (!direct && !flat() && options_.zero == nullptr)
      all_reduced_.push_back({output, into.back(), OperatorId(), HoldKind::kLocal});
  }
  if (!direct) {
    into.push_back(add_copy(
        graph_, fresh ? "cast_gradient" : "accumulate_gradient", Phase::kBackward,
        {{output, Access::kRead}, {unit.gradient, fresh ? Access::kCreate : Access::kMutate}}));
    // foreach_reduce casts and adds where it has reduced last.
    const bool sums_replicas = options_.zero == nullptr && unit.ranks.replicas > 1;
    graph_.operators[into.back()].executor = sums_replicas ? Executor::kReplicas : reducer();
  }
}

// Returns where a reduction's copies run: DeepSpeed has no other stream without overlap_comm.
Executor ShardedStep::reducer() const {
  const bool apart = options_.zero == nullptr || options_.zero->overlap;
  return apart ? Executor::kReduction : Executor::kDevice;
}

// Whether the sum over micro-batches stays apart, in the type of the reduction and on the device,
// until the last one adds up the replicas (PyTorch's partial_reduce_output).
bool ShardedStep::replicas_wait(const Unit& unit) const {
  return !options_.all_reduce_each && unit.ranks.replicas > 1 && graph_.micro_batches > 1 &&
         !unsynced();
}

// Whether micro-batches but the last keep their gradients in full size.
bool ShardedStep::unsynced() const {
  // A pipeline's micro-batches do so, where zero_grad does not fill the sharded gradients.
  const bool pipelined = mesh_.size(MeshDimension::kPipeline) > 1 && !graph_.gradients_persist;
  return options_.zero == nullptr && graph_.micro_batches > 1 &&
         options_.no_sync.value_or(pipelined);
}

// Whether a unit is gathered once in a step: in a pipeline only the last micro-batch's backward
// reshards (set_reshard_after_backward(False) in torch/distributed/pipelining/stage.py), and a unit
// that forward does not free either is there for all of them.
bool ShardedStep::stays_gathered(const Unit& unit) const {
  return unit.kept && !flat() && unsynced() && mesh_.size(MeshDimension::kPipeline) > 1;
}

void ShardedStep::build_backward() {
  const std::vector<OperatorId> backward = graph_.part(PartKind::kBackward);
  if (unsynced()) return build_unsynced_backward(backward);
  const bool waits = std::any_of(tensors_.begin(), tensors_.end(),
                                 [&](const Unit& unit) { return replicas_wait(unit); });
  if (waits && graph_.gradients_persist) {
    throw UserError({}, "policies.fsdp.all_reduce_each",
                    "adds up the first micro-batch's gradients beside the sharded ones, and "
                    "zero_grad: zero keeps those; write training.zero_grad: none");
  }
  const bool several = graph_.micro_batches > 1;
  const bool accumulates = !graph_.part(PartKind::kBackwardAccumulate).empty();
  graph_.part(PartKind::kBackward) = reduced(backward, {.first = true, .last = !several});
  if (!accumulates) return;
  if (options_.zero != nullptr && !options_.zero->secondary_ranks) return;
  const bool last_differs = several && !options_.all_reduce_each;
  graph_.part(PartKind::kBackwardAccumulate) =
      reduced(backward, {.first = false, .last = !last_differs});
  if (last_differs)
    graph_.part(PartKind::kBackwardReduce) = reduced(backward, {.first = false, .last = true});
}

void ShardedStep::build_unsynced_backward(const std::vector<OperatorId>& backward) {
  if (graph_.gradients_persist) {
    throw UserError({}, "policies.fsdp.no_sync",
                    "drops gradients of full size when they have been reduced, and zero_grad: zero "
                    "keeps gradients; write training.zero_grad: none");
  }
  // Autograd's own gradients, if they stay, are added to by later micro-batches as without shards.
  const bool own = std::all_of(tensors_.begin(), tensors_.end(),
                               [&](const Unit& unit) { return keeps_own_gradients(unit); });
  for (const Unit& unit : tensors_) {
    for (const StorageId made : unit.made) {
      if (own) graph_.storages[made].one_per_rank = true;
    }
  }
  const std::vector<OperatorId> later = own ? graph_.part(PartKind::kBackwardAccumulate) : backward;
  graph_.part(PartKind::kBackward) = reduced(backward, {.first = true, .last = false});
  graph_.part(PartKind::kBackwardAccumulate) = reduced(later, {.first = false, .last = false});
  graph_.part(PartKind::kBackwardReduce) = reduced(later, {.first = false, .last = true});
}

// Marks where backward first uses what a unit has gathered, and its secondary shards.
OperatorId ShardedStep::mark_of_use(const Unit& unit) {
  std::vector<StorageId> used = unit.full;
  if (!unit.kept && unit.gathered.valid()) used.push_back(unit.gathered);
  if (!unit.kept && marks_secondary())
    used.insert(used.end(), unit.secondary.begin(), unit.secondary.end());
  return add_mark(OperatorPart::kUseGathered, Phase::kBackward, used);
}

// Whether a unit is resharded when all of backward is over: PyTorch's hooks wait for the gradients
// of the inputs of the unit's module, and the model's own have none. Version 1 waits for the flat
// parameter's instead where that is trained (_register_post_backward_reshard_only_hook in
// torch/distributed/fsdp/_runtime_utils.py).
bool ShardedStep::leaves_at_end(const Unit& unit) const {
  return options_.zero == nullptr && unit.spans_model && !(flat() && unit.gradient.valid());
}

std::vector<OperatorId> ShardedStep::reduced(const std::vector<OperatorId>& part,
                                             MicroBatch micro) {
  std::vector<UnitVisit> visits = unit_visits(graph_, units_, part, unit_of_);
  for (std::size_t u = 0; u < visits.size(); ++u) {
    if (leaves_at_end(tensors_[u])) visits[u].last = part.size() - 1;
  }
  std::vector<std::size_t> order = visited_units(visits);
  Insertions insert(part.size());
  for (const std::size_t u : order) {
    const Unit& unit = tensors_[u];
    if (!unit.full.empty()) insert.before[visits[u].first].push_back(mark_of_use(unit));
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(visits[a].last, a) < std::pair(visits[b].last, b);
  });
  const Unit* before = nullptr;
  for (const std::size_t u : order) {
    Unit& unit = tensors_[u];
    std::vector<OperatorId>& end = insert.after[visits[u].last];
    if (!unit.full.empty() && (micro.last || !stays_gathered(unit))) {
      // A unit that was not freed behind forward leaves its secondary shards now.
      if (unit.kept && micro.first) {
        reshard(unit, Phase::kBackward, end);
      } else {
        end.push_back(add_mark(OperatorPart::kRelease, Phase::kBackward, unit.full));
      }
    }
    if (!unit.gradient.valid()) continue;
    if (unsynced()) keep_gradients(unit, micro, end);
    if (unsynced() && !micro.last) continue;
    if (before != nullptr && !flat()) end.push_back(add_wait(*before, micro));
    const std::vector<OperatorId> reduction = reduction_of(unit, micro);
    end.insert(end.end(), reduction.begin(), reduction.end());
    before = &unit;
  }
  // Compute goes on when the last reduction is over.
  if (before != nullptr) {
    insert.at_end.push_back(add_wait(*before, micro));
    for (Hold& hold : all_reduced_) {
      hold.until = insert.at_end.back();
      graph_.holds.push_back(hold);
    }
  }
  all_reduced_.clear();
  return insert.into(part);
}

}  // namespace tidemark::sharding
