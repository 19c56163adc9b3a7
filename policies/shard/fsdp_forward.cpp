#include <algorithm>
#include <numeric>

#include "policies/shard/sharded_step.hpp"
#include "policies/shard/sharded_tensors.hpp"
#include "policies/shard/zero_options.hpp"

namespace tidemark::sharding {

// Returns how many ranks share what a unit keeps for the next gather; nothing where it keeps none.
std::optional<int> ShardedStep::secondary_ranks(const Unit& unit) const {
  if (options_.zero != nullptr) return options_.zero->secondary_ranks;
  return unit.kept ? std::nullopt : options_.backward_ranks;
}

// Whether a parameter's secondary shard is there from one step to the next. An evaluation never
// drops them. ZeRO drops those that an update makes out of date. FSDP drops them when it gathers
// from them, or when the next forward has made others: backward ends with parameters of units that
// it has not run in the shards of all ranks (FSDPParam.to_sharded in fully_shard/_fsdp_param.py),
// and leaves them.
bool ShardedStep::outlives_step(const Parameter& parameter) const {
  if (!trains_) return true;
  if (options_.zero != nullptr) return !parameter.trained;
  return !backward_[unit_of_[parameter.storage].value()].happens;
}

// The secondary shards that do not outlive a step are there from their first use on.
void ShardedStep::add_secondary(Unit& unit) {
  const std::optional<int> ranks = secondary_ranks(unit);
  if (!ranks) return;
  unit.secondary_only = !trains_ || options_.zero != nullptr;
  for (const ParameterId id : unit.parameters) {
    const Parameter& parameter = graph_.parameters[id];
    const Storage gathered = graph_.storages[parameter.storage];
    if (gathered.persistent) continue;  // never gathered
    const Elements part(gathered.elements.count / *ranks);
    const bool stays = outlives_step(parameter);
    const auto add = stays ? add_kept : add_tensor;
    const StorageId shard = add(graph_, gathered.name + ".secondary_shard", gathered.dtype, part,
                                Role::kGatheredParameter);
    unit.secondary_only = unit.secondary_only && stays;
    graph_.storages[shard].one_per_rank = true;
    graph_.storages[shard].layer = gathered.layer;
    graph_.storages[shard].home = options_.zero == nullptr ? Tier::kDevice : options_.shard_home;
    unit.secondary.push_back(shard);
  }
}

// Returns the bytes that a gather of the unit brings together, padding included. Tensors of
// different types, as codes of quantised weights among others, are gathered as bytes
// (_get_param_all_gather_inputs in fully_shard/_fsdp_collectives.py).
Bytes ShardedStep::gathered_bytes(const Unit& unit) const {
  if (flat()) return bytes_of(unit.compute, Elements(unit.stored.count * unit.ranks.shard));
  Bytes whole;
  for (const StorageId full : unit.full)
    whole += graph_.storages[full].bytes;
  return whole;
}

// Adds a gather among `ranks` consecutive ranks, each of which has `sources`.
OperatorId ShardedStep::gather_from(Unit& unit, const std::vector<StorageId>& sources, int ranks) {
  const Bytes whole = gathered_bytes(unit);
  const std::int64_t element = bytes_of(unit.compute, Elements(1)).count;
  const auto elements = [&](Bytes bytes) {
    return Elements((bytes.count + element - 1) / element);
  };
  std::vector<Touch> touches;
  for (const StorageId shard : sources)
    touches.push_back({shard, Access::kRead});
  // ZeRO gathers a single parameter in place, and several into a flat tensor first.
  const bool in_place = flat() || (options_.zero != nullptr && unit.full.size() == 1);
  // The shards in the type of compute, dropped when the gather has been issued. Version 2 copies
  // them together in any case.
  if (options_.zero == nullptr && (!flat() || unit.compute != unit.kept_as)) {
    touches.push_back(
        {add_buffer(unit.name + ".gather_input", unit.compute, elements(whole / ranks)),
         Access::kCreate});
  }
  if (in_place) {
    for (const StorageId full : unit.full)
      touches.push_back({full, Access::kCreate});
  } else {
    if (!unit.gathered.valid()) {
      unit.gathered = add_buffer(unit.name + ".gather_output", unit.compute, elements(whole));
      graph_.storages[unit.gathered].one_per_rank = true;
    }
    touches.push_back({unit.gathered, Access::kCreate});
  }
  const OperatorId gather = add_collective(
      graph_, CollectiveKind::kAllGather, MeshDimension::kShard, Phase::kForward, unit.compute,
      whole, touches, taking_part(ranks, MeshDimension::kShard), ranks < unit.ranks.shard);
  graph_.operators[gather].part = OperatorPart::kGather;
  return gather;
}

// Adds what brings a unit together: the gather of forward, that of backward, and the copy behind
// either.
void ShardedStep::add_gathers(Unit& unit) {
  unit.gather = unit.secondary_only ? gather_from(unit, unit.secondary, *secondary_ranks(unit))
                                    : gather_from(unit, unit.shards, unit.ranks.shard);
  if (unit.gathered.valid()) {
    std::vector<Touch> copies{{unit.gathered, Access::kRead}};
    for (const StorageId full : unit.full)
      copies.push_back({full, Access::kCreate});
    unit.copy_out = add_copy(graph_, "copy_out", Phase::kForward, copies);
    graph_.operators[unit.copy_out].part = OperatorPart::kGather;
  }
  if (unit.secondary.empty() || unit.secondary_only) return;
  const OperatorId again = gather_from(unit, unit.secondary, *secondary_ranks(unit));
  graph_.operators[unit.gather].recomputed_by = again;
}

// Frees the gathered parameters of a unit, each behind the copy of its secondary shard where one is
// made. FSDP makes that of a unit that backward does not run anew, and then drops the one before.
void ShardedStep::reshard(const Unit& unit, Phase phase, std::vector<OperatorId>& into) {
  if (unit.secondary.empty() || unit.secondary_only) {
    into.push_back(add_mark(OperatorPart::kRelease, phase, unit.full));
    return;
  }
  for (std::size_t i = 0; i < unit.full.size(); ++i) {
    const Storage shard = graph_.storages[unit.secondary[i]];
    if (!shard.persistent || options_.zero == nullptr) {
      std::vector<Touch> touches{{unit.full[i], Access::kRead}};
      if (shard.persistent) {
        const StorageId before = add_buffer(shard.name + ".before", shard.dtype, shard.elements);
        touches.push_back({before, Access::kCreate});
      }
      touches.push_back(
          {unit.secondary[i], shard.persistent ? Access::kOverwrite : Access::kCreate});
      into.push_back(add_copy(graph_, "reshard", phase, touches, shard.bytes));
      graph_.operators[into.back()].part = OperatorPart::kGather;
    }
    into.push_back(add_mark(OperatorPart::kRelease, phase, {unit.full[i]}));
  }
}

void ShardedStep::build_forward() {
  for (Unit& unit : tensors_) {
    if (!unit.full.empty()) add_secondary(unit);
  }
  const std::vector<OperatorId> plain = graph_.part(PartKind::kForward);
  graph_.part(PartKind::kForward) = gathered_forward(plain, true);
  // ZeRO's second partition stays until the step is over: later micro-batches have it from the
  // start.
  const bool stays = options_.zero != nullptr && options_.zero->secondary_ranks;
  const bool differs = stays || std::any_of(tensors_.begin(), tensors_.end(),
                                            [&](const Unit& u) { return stays_gathered(u); });
  if (differs && trains_ && graph_.micro_batches > 1)
    graph_.part(PartKind::kForwardLater) = gathered_forward(plain, false);
}

// Returns the gather of a unit in forward, from its secondary shards where they are there.
OperatorId ShardedStep::gather_of(Unit& unit, bool first) {
  if (!unit.gather.valid()) add_gathers(unit);
  const bool secondary = !unit.secondary.empty() && !unit.secondary_only && !first;
  if (!secondary) return unit.gather;
  if (!unit.later_gather.valid())
    unit.later_gather = gather_from(unit, unit.secondary, *secondary_ranks(unit));
  return unit.later_gather;
}

// Returns forward with the gathers and releases of its units; `first`: of the first micro-batch of
// a step, before which there are no secondary shards.
std::vector<OperatorId> ShardedStep::gathered_forward(const std::vector<OperatorId>& part,
                                                      bool first) {
  const std::vector<UnitVisit> visits = unit_visits(graph_, units_, part, unit_of_);
  Insertions insert(part.size());
  std::size_t end = 0;
  Unit* before = nullptr;
  for (const std::size_t u : visited_units(visits)) {
    Unit& unit = tensors_[u];
    if (unit.full.empty() || (!first && stays_gathered(unit))) continue;
    std::vector<OperatorId>& start = insert.before[visits[u].first];
    start.push_back(gather_of(unit, first));
    if (before != nullptr && before->gathered.valid() && options_.zero == nullptr)
      start.push_back(add_mark(OperatorPart::kRelease, Phase::kForward, {before->gathered}));
    if (unit.copy_out.valid()) start.push_back(unit.copy_out);
    if (unit.gathered.valid() && options_.zero != nullptr)
      start.push_back(add_mark(OperatorPart::kRelease, Phase::kForward, {unit.gathered}));
    if (!unit.kept) {
      std::vector<OperatorId>& behind = insert.after[visits[u].last];
      if (first) {
        reshard(unit, Phase::kForward, behind);
      } else {
        behind.push_back(add_mark(OperatorPart::kRelease, Phase::kForward, unit.full));
      }
    }
    end = std::max(end, visits[u].last);
    before = &unit;
  }
  if (before != nullptr && before->gathered.valid() && options_.zero == nullptr) {
    insert.after[end].push_back(
        add_mark(OperatorPart::kRelease, Phase::kForward, {before->gathered}));
  }
  return insert.into(part);
}

}  // namespace tidemark::sharding
