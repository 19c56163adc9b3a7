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

// The elements of gathered parameters that are live at a point of the order, of units that forward
// frees.
class LiveElements {
 public:
  explicit LiveElements(const PolicyContext& context)
      : context_(context),
        is_live_(context.graph.storages.size(), 0),
        is_freed_(context.graph.storages.size(), 0) {
    for (const OperatorId id : ids_of(context.graph.operators)) {
      const Operator& op = context.graph.operators[id];
      if (op.part != OperatorPart::kRelease || op.phase != Phase::kForward) continue;
      for (const Touch& touch : context.graph.touches_of(id))
        is_freed_[touch.storage] = 1;
    }
  }

  void pass(Position p) {
    const Operator& op = context_.op_at(p);
    for (const Touch& touch : context_.graph.touches_of(context_.order.at[p].op)) {
      const Storage& storage = context_.graph.storages[touch.storage];
      if (storage.role != Role::kGatheredParameter || is_freed_[touch.storage] == 0) continue;
      const bool frees = op.part == OperatorPart::kRelease;
      char& is_live = is_live_[touch.storage];
      if (is_live == (frees ? 0 : 1)) continue;
      is_live = frees ? 0 : 1;
      elements_ += frees ? -storage.elements.count : storage.elements.count;
    }
  }
  [[nodiscard]] Elements count() const { return Elements(elements_); }

 private:
  const PolicyContext& context_;
  IdVector<StorageId, char> is_live_;
  IdVector<StorageId, char> is_freed_;  // by forward
  std::int64_t elements_ = 0;
};

// By position: the place where a gather for the use at this position is issued.
IdVector<Position, Position> gather_places(const PolicyContext& context, BackwardPrefetch prefetch,
                                           std::optional<Elements> most_live) {
  LiveElements live(context);
  IdVector<Position, Position> places(context.order.at.size());
  Position ahead;  // the first position after the last mark of this backward
  std::pair<int, int> backward{-1, -1};
  for (const Position p : ids_of(context.order.at)) {
    const Operator& op = context.op_at(p);
    if (most_live) live.pass(p);
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
    // Nothing is fetched ahead: the next use gathers when it is reached.
    if (marks && most_live && live.count() >= *most_live) ahead = {};
    if (uses && prefetch == BackwardPrefetch::kNone) places[p] = p;
  }
  return places;
}

// Returns the positions that made what each gathered storage holds, in their order.
IdVector<InstanceId, std::vector<Position>> makers_of_gathered(const PolicyContext& context,
                                                               const Instances& instances) {
  IdVector<InstanceId, std::vector<Position>> made(instances.size());
  for (const Position p : ids_of(context.order.at)) {
    const Occurrence& occurrence = context.order.at[p];
    for (const Touch& touch : context.graph.touches_of(occurrence.op)) {
      if (touch.access != Access::kCreate) continue;
      if (!is_gathered(context.graph.storages[touch.storage])) continue;
      made[instances.of(touch.storage, occurrence.instance)].push_back(p);
    }
  }
  return made;
}

// Returns the gaps between the release of what was gathered and its next use.
std::vector<GapId> gaps_of_released(const PolicyContext& context) {
  std::vector<GapId> released;
  for (const GapId id : ids_of(context.live.gaps)) {
    const Gap& gap = context.live.gaps[id];
    if (!gap.open() || !is_gathered(context.graph.storages[gap.storage])) continue;
    if (context.op_at(gap.from).part == OperatorPart::kRelease &&
        context.op_at(gap.to).part == OperatorPart::kUseGathered) {
      released.push_back(id);
    }
  }
  return released;
}

}  // namespace
}  // namespace gathered_detail

void plan_gathers(const PolicyContext& context, BackwardPrefetch prefetch, ResidencyPlan& plan,
                  std::optional<Elements> most_live) {
  const IdVector<Position, Position> places =
      gathered_detail::gather_places(context, prefetch, most_live);
  const Instances instances(context.graph, context.order);
  const IdVector<InstanceId, std::vector<Position>> made =
      gathered_detail::makers_of_gathered(context, instances);
  std::map<Position, GroupId> groups;  // by the position that is repeated
  const auto regather = [&](GapId id, bool collectives) {
    const Gap& gap = context.live.gaps[id];
    const std::vector<Position>& makers = made[instances.of(gap.storage, gap.instance)];
    const auto after = std::upper_bound(makers.begin(), makers.end(), gap.from);
    if (after == makers.begin()) return;
    const Position maker = *(after - 1);
    const bool communicates = context.op_at(maker).work.op_class == OperatorClass::kCollective;
    if (communicates != collectives) return;
    const auto [group, fresh] = groups.try_emplace(maker);
    if (fresh) group->second = plan.add_group({.recipe = {maker}});
    plan.decide(id, Recompute{.group = group->second,
                              .issue_at = communicates ? places[gap.to] : Position()});
  };
  const std::vector<GapId> released = gathered_detail::gaps_of_released(context);
  // A copy out of a gather comes behind the gather if both are issued before the same operator.
  for (const bool collectives : {true, false}) {
    for (const GapId id : released)
      regather(id, collectives);
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
