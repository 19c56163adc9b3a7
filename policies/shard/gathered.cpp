#include "policies/shard/gathered.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/analysis/instances.hpp"

namespace tidemark {
namespace gathered_detail {
namespace {

bool is_gathered(const Storage& storage) {
  const bool role =
      storage.role == Role::kGatheredParameter || storage.role == Role::kCommunication;
  return role && !storage.persistent && !storage.initial;
}

// By position: the place where a gather for the use at this position is issued.
IdVector<Position, Position> gather_places(const PolicyContext& context,
                                           BackwardPrefetch prefetch) {
  IdVector<Position, Position> places(context.order.at.size());
  Position ahead;  // the first position after the last mark of this backward
  std::pair<int, int> backward{-1, -1};
  for (const Position p : ids_of(context.order.at)) {
    const Operator& op = context.op_at(p);
    if (op.phase != Phase::kBackward) continue;
    const Occurrence& occurrence = context.order.at[p];
    if (const std::pair<int, int> now{occurrence.step, occurrence.micro_batch}; now != backward) {
      backward = now;
      ahead = {};
    }
    const bool uses = op.part == OperatorPart::kUseGathered;
    if (uses) places[p] = ahead.valid() ? ahead : p;
    const bool marks = (uses && prefetch == BackwardPrefetch::kPre) ||
                       (op.part == OperatorPart::kRelease && prefetch == BackwardPrefetch::kPost);
    if (marks) ahead = Position(p.value + 1);
    if (uses && prefetch == BackwardPrefetch::kNone) places[p] = p;
  }
  return places;
}

}  // namespace
}  // namespace gathered_detail

void plan_gathers(const PolicyContext& context, BackwardPrefetch prefetch, ResidencyPlan& plan) {
  const IdVector<Position, Position> places = gathered_detail::gather_places(context, prefetch);
  // The position that made what each gathered storage holds.
  const Instances instances(context.graph, context.order);
  IdVector<InstanceId, std::vector<Position>> made(instances.size());
  for (const Position p : ids_of(context.order.at)) {
    const Occurrence& occurrence = context.order.at[p];
    for (const Touch& touch : context.graph.touches_of(occurrence.op)) {
      if (touch.access != Access::kCreate) continue;
      if (!gathered_detail::is_gathered(context.graph.storages[touch.storage])) continue;
      made[instances.of(touch.storage, occurrence.instance)].push_back(p);
    }
  }
  std::map<Position, GroupId> groups;  // by the position that is repeated
  for (const GapId id : ids_of(context.live.gaps)) {
    const Gap& gap = context.live.gaps[id];
    if (!gap.open() || !gathered_detail::is_gathered(context.graph.storages[gap.storage])) continue;
    const bool given_up = context.op_at(gap.from).part == OperatorPart::kRelease &&
                          context.op_at(gap.to).part == OperatorPart::kUseGathered;
    if (!given_up) continue;
    const std::vector<Position>& makers = made[instances.of(gap.storage, gap.instance)];
    const auto after = std::upper_bound(makers.begin(), makers.end(), gap.from);
    if (after == makers.begin()) continue;
    const Position maker = *(after - 1);
    const auto [group, fresh] = groups.try_emplace(maker);
    if (fresh) group->second = plan.add_group({.recipe = {maker}});
    const bool communicates = context.op_at(maker).work.op_class == OperatorClass::kCollective;
    plan.decide(id, Recompute{.group = group->second,
                              .issue_at = communicates ? places[gap.to] : Position()});
  }
}

void count_shards(const PolicyContext& context, ResidencyPlan& plan) {
  const bool sharded = std::any_of(context.graph.operators.begin(), context.graph.operators.end(),
                                   [](const Operator& op) {
                                     return op.work.op_class == OperatorClass::kCollective &&
                                            op.work.collective.group == MeshDimension::kShard;
                                   });
  if (sharded) plan.outcome().decided += static_cast<std::int64_t>(context.graph.updates.size());
}

}  // namespace tidemark
