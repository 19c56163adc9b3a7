#include "policies/shard/gathered.hpp"

#include <algorithm>
#include <map>
#include <span>
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

// The uses of gathered units in one backward, in their order, and what is issued ahead of them.
class Backward {
 public:
  struct Use {
    Position at;
    std::int64_t elements = 0;  // of the unit, where forward frees it
  };

  void add(Use use) { uses_.push_back(use); }

  void pass_use() { ++passed_; }

  // Calls `issue` for the uses whose gathers a mark issues. `live` are the elements of units that
  // have been used and not freed.
  template <class Issue>
  void issue_ahead(const GatherAhead& ahead, std::int64_t live, Issue issue) {
    // A unit has a release for each of its parameters, and only the first fetches.
    if (ahead.when == BackwardPrefetch::kPost && next_ > passed_) return;
    next_ = std::max(next_, passed_);
    for (std::size_t i = passed_; i < next_; ++i)
      live += uses_[i].elements;
    std::int64_t most = ahead.bucket.count;
    if (ahead.most_live) most = std::min(most, ahead.most_live->count - live);
    for (std::int64_t issued = 0; issued < most && next_ < uses_.size(); ++next_) {
      issue(uses_[next_].at);
      // FSDP counts units, those that forward kept as well; ZeRO passes over what is there.
      issued += ahead.most_live ? uses_[next_].elements : ahead.bucket.count;
    }
  }

 private:
  std::vector<Use> uses_;
  std::size_t passed_ = 0;  // uses that lie behind
  std::size_t next_ = 0;    // the first that has not been issued
};

// The elements of gathered parameters of units that forward frees.
class FreedUnits {
 public:
  explicit FreedUnits(const PolicyContext& context)
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

  // Returns the elements that the operator at a position touches.
  [[nodiscard]] std::int64_t elements_at(Position p) const {
    std::int64_t elements = 0;
    for (const Touch& touch : touches_at(p))
      if (counts(touch)) elements += context_.graph.storages[touch.storage].elements.count;
    return elements;
  }

  // Counts those that live behind the position, where none is gathered ahead.
  void pass(Position p) {
    const bool frees = context_.op_at(p).part == OperatorPart::kRelease;
    for (const Touch& touch : touches_at(p)) {
      char& is_live = is_live_[touch.storage];
      if (!counts(touch) || is_live == (frees ? 0 : 1)) continue;
      is_live = frees ? 0 : 1;
      const std::int64_t elements = context_.graph.storages[touch.storage].elements.count;
      live_ += frees ? -elements : elements;
    }
  }
  [[nodiscard]] std::int64_t live() const { return live_; }

 private:
  [[nodiscard]] std::span<const Touch> touches_at(Position p) const {
    return context_.graph.touches_of(context_.order.at[p].op);
  }
  [[nodiscard]] bool counts(const Touch& touch) const {
    return is_freed_[touch.storage] != 0 &&
           context_.graph.storages[touch.storage].role == Role::kGatheredParameter;
  }

  const PolicyContext& context_;
  IdVector<StorageId, char> is_live_;
  IdVector<StorageId, char> is_freed_;  // by forward
  std::int64_t live_ = 0;
};

// By position: the place where a gather for the use at this position is issued.
IdVector<Position, Position> gather_places(const PolicyContext& context, const GatherAhead& ahead) {
  FreedUnits units(context);
  IdVector<Position, Position> places(context.order.at.size());
  const auto step_and_micro_batch = [&](Position p) {
    return std::pair<int, int>{context.order.at[p].step, context.order.at[p].micro_batch};
  };
  const auto uses_at = [&](Position p) {
    const Operator& op = context.op_at(p);
    return op.phase == Phase::kBackward && op.part == OperatorPart::kUseGathered;
  };
  std::map<std::pair<int, int>, Backward> backwards;
  for (const Position p : ids_of(context.order.at)) {
    if (!uses_at(p)) continue;
    places[p] = p;
    backwards[step_and_micro_batch(p)].add({.at = p, .elements = units.elements_at(p)});
  }
  if (ahead.when == BackwardPrefetch::kNone) return places;
  for (const Position p : ids_of(context.order.at)) {
    if (ahead.most_live) units.pass(p);
    const Operator& op = context.op_at(p);
    if (op.phase != Phase::kBackward) continue;
    const bool uses = uses_at(p);
    const bool marks =
        ahead.when == BackwardPrefetch::kPre ? uses : op.part == OperatorPart::kRelease;
    if (!uses && !marks) continue;
    Backward& backward = backwards[step_and_micro_batch(p)];
    if (uses) backward.pass_use();
    if (!marks) continue;
    backward.issue_ahead(ahead, units.live(),
                         [&](Position use) { places[use] = Position(p.value + 1); });
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

void plan_gathers(const PolicyContext& context, const GatherAhead& ahead, ResidencyPlan& plan) {
  const IdVector<Position, Position> places = gathered_detail::gather_places(context, ahead);
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
  // Gathers that are issued before the same operator run in the order of their uses.
  std::vector<GapId> released = gathered_detail::gaps_of_released(context);
  std::stable_sort(released.begin(), released.end(), [&](GapId a, GapId b) {
    return context.live.gaps[a].to < context.live.gaps[b].to;
  });
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
