#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "graph/analysis/instances.hpp"
#include "sim/program/expected_contents.hpp"
#include "sim/program/lower.hpp"

namespace tidemark {
namespace recomputation_detail {
namespace {

struct PlannedGroup {
  // the touch that ends a gap of the group first, or the place where the group is issued
  Position before;
  std::vector<GapId> gaps;
};

// The positions at which each instance's content changes.
class WriteHistory {
 public:
  WriteHistory(const TrainingGraph& graph, const ProgramOrder& order)
      : graph_(graph), order_(order), instances_(graph, order), writes_(instances_.size()) {
    for (Position p : ids_of(order.at)) {
      for (const Touch& touch : graph.touches_of(order.at[p].op)) {
        if (touch.access == Access::kRead) continue;
        writes_[instances_.of(touch.storage, order.at[p].instance)].push_back(p);
      }
    }
  }
  // Returns how often what the occurrences with number `instance` know as the storage is written in
  // (after, before).
  [[nodiscard]] std::ptrdiff_t writes_between(StorageId s, std::uint16_t instance, Position after,
                                              Position before) const {
    const std::vector<Position>& w = writes_[instances_.of(s, instance)];
    const auto next = std::upper_bound(w.begin(), w.end(), after);
    return std::lower_bound(next, w.end(), before) - next;
  }
  // Whether it changes there: a micro-batch that gathers parameters again leaves them as they were.
  [[nodiscard]] bool changes_between(StorageId s, std::uint16_t instance, Position after,
                                     Position before) const {
    const std::vector<Position>& w = writes_[instances_.of(s, instance)];
    const auto next = std::upper_bound(w.begin(), w.end(), after);
    return std::any_of(next, std::lower_bound(next, w.end(), before),
                       [this](Position p) { return !gathers_parameters(graph_, order_.at[p].op); });
  }

 private:
  const TrainingGraph& graph_;
  const ProgramOrder& order_;
  Instances instances_;
  IdVector<InstanceId, std::vector<Position>> writes_;
};

// Returns the operator that runs where an occurrence is recomputed.
OperatorId repeated_by(const TrainingGraph& graph, const Occurrence& occurrence) {
  const OperatorId other = graph.operators[occurrence.op].recomputed_by;
  return other.valid() ? other : occurrence.op;
}

// Whether the recipe reads from outside itself what it read the first time. An operator that stands
// in for another reads what the step has made of that one's results, once, behind it.
bool reads_the_same(const TrainingGraph& graph, const ProgramOrder& order,
                    const RecomputeGroup& group, Position before, const WriteHistory& history) {
  std::unordered_set<StorageId> made;
  for (Position p : group.recipe) {
    const OperatorId op = repeated_by(graph, order.at[p]);
    const bool stands_in = op != order.at[p].op;
    if (writes_persistent(graph, op)) return false;
    for (const Touch& touch : graph.touches_of(op)) {
      if (touch.access == Access::kCreate) {
        made.insert(touch.storage);
      } else if (!made.contains(touch.storage)) {
        const std::uint16_t instance = order.at[p].instance;
        const bool same = stands_in
                              ? history.writes_between(touch.storage, instance, p, before) == 1
                              : !history.changes_between(touch.storage, instance, p, before);
        if (touch.access != Access::kRead || !same) return false;
      }
    }
  }
  return true;
}

// Returns the gap behind the creation of a storage by the operator at a position; invalid where it
// creates no such storage.
GapId gap_of_created(const TrainingGraph& graph, const ProgramOrder& order, const Liveness& live,
                     Position p, StorageId storage) {
  const std::span<const Touch> touches = graph.touches_of(order.at[p].op);
  for (std::size_t i = 0; i < touches.size(); ++i) {
    if (touches[i].storage == storage && touches[i].access == Access::kCreate)
      return live.after(p, i);
  }
  return {};
}

// Returns which creates must go to scratch because they would disturb a copy that is still needed.
std::uint32_t scratch_mask(const TrainingGraph& graph, const ProgramOrder& order,
                           const Liveness& live, const IdVector<GapId, Decision>& decisions,
                           Position recipe_position, OperatorId op, Position before,
                           const IdVector<StorageId, char>& wanted_in_recipe) {
  std::uint32_t mask = 0;
  const std::span<const Touch> touches = graph.touches_of(op);
  for (std::size_t i = 0; i < touches.size() && i < 32; ++i) {
    if (touches[i].access != Access::kCreate) continue;
    // Walks the gaps of the original value up to the point of recomputation.
    GapId gap = gap_of_created(graph, order, live, recipe_position, touches[i].storage);
    bool wanted = false;
    while (gap.valid()) {
      const Gap& g = live.gaps[gap];
      if (g.dead || !g.to.valid()) break;
      if (g.to >= before) {
        wanted = !std::holds_alternative<Recompute>(decisions[gap]);
        break;
      }
      gap = GapId(gap.value + 1);
    }
    if (wanted && wanted_in_recipe[touches[i].storage] == 0) mask |= 1U << i;
  }
  return mask;
}

// Recomputation is issued before the touch that ends the gap; earlier only once the old copy can be
// freed.
Position issue_position(const Gap& gap, const Recompute& recompute) {
  if (!recompute.issue_at.valid()) return gap.to;
  return std::min(std::max(recompute.issue_at, Position(gap.release.value + 1)), gap.to);
}

// Returns the gaps that each group closes and the position before which it is issued.
IdVector<GroupId, PlannedGroup> planned_groups(const Liveness& live, const ResidencyPlan& plan) {
  IdVector<GroupId, PlannedGroup> planned(plan.groups().size());
  for (GapId gap : ids_of(plan.decisions())) {
    const auto* recompute = std::get_if<Recompute>(&plan.decision(gap));
    if (recompute == nullptr) continue;
    PlannedGroup& group = planned[recompute->group];
    const Position issued = issue_position(live.gaps[gap], *recompute);
    group.before = group.gaps.empty() ? issued : std::min(group.before, issued);
    group.gaps.push_back(gap);
  }
  return planned;
}

bool gathers_only(const TrainingGraph& graph, const ProgramOrder& order,
                  const RecomputeGroup& group) {
  return std::all_of(group.recipe.begin(), group.recipe.end(),
                     [&](Position p) { return gathers(graph, order.at[p].op); });
}

// Issues what gathers a unit again before any recomputation that reads the unit, be it a part of a
// checkpointed block:
//
//   forward   gather u .. u .. release u
//   backward  [gather u] [recompute the block, with u] .. use u .. release u
class GathersForRecipes {
 public:
  GathersForRecipes(const TrainingGraph& graph, const ProgramOrder& order, const Liveness& live,
                    const ResidencyPlan& plan, IdVector<GroupId, PlannedGroup>& planned)
      : graph_(graph), order_(order), live_(live), plan_(plan), planned_(planned) {
    for (const GroupId id : ids_of(plan.groups())) {
      if (!gathers_only(graph, order, plan.groups()[id])) continue;
      for (const GapId gap : planned[id].gaps) {
        const Gap& closed = live.gaps[gap];
        gathered_[{closed.storage, order.at[closed.from].instance}].push_back({gap, id});
      }
    }
  }

  void move() {
    if (gathered_.empty()) return;
    // What is copied out of a gather moves the gather.
    for (bool moved = true; moved;) {
      moved = false;
      for (const GroupId id : ids_of(plan_.groups())) {
        if (!planned_[id].gaps.empty() && move_before(id)) moved = true;
      }
    }
  }

 private:
  struct Gathered {
    GapId gap;
    GroupId group;
  };

  // Moves the gathers that a group reads; returns whether it has moved any.
  bool move_before(GroupId reader) {
    const Position before = planned_[reader].before;
    bool moved = false;
    for (const Position p : plan_.groups()[reader].recipe) {
      for (const Touch& touch : graph_.touches_of(repeated_by(graph_, order_.at[p]))) {
        if (touch.access != Access::kRead) continue;
        const auto found = gathered_.find({touch.storage, order_.at[p].instance});
        if (found == gathered_.end()) continue;
        for (const Gathered& gathered : found->second) {
          const bool ends_later = live_.gaps[gathered.gap].to > before;
          PlannedGroup& group = planned_[gathered.group];
          if (live_.gaps[gathered.gap].from >= before || !ends_later || group.before <= before)
            continue;
          group.before = before;
          moved = true;
        }
      }
    }
    return moved;
  }

  const TrainingGraph& graph_;
  const ProgramOrder& order_;
  const Liveness& live_;
  const ResidencyPlan& plan_;
  IdVector<GroupId, PlannedGroup>& planned_;
  std::map<std::pair<StorageId, std::uint16_t>, std::vector<Gathered>> gathered_;
};

// Sets the mark of each storage that a recipe changes in place.
void mark_changed(const TrainingGraph& graph, const ProgramOrder& order,
                  const RecomputeGroup& group, IdVector<StorageId, char>& marks) {
  for (Position p : group.recipe) {
    for (const Touch& t : graph.touches_of(order.at[p].op)) {
      if (t.access == Access::kMutate || t.access == Access::kOverwrite) marks[t.storage] = 1;
    }
  }
}

void clear_marks(const TrainingGraph& graph, const ProgramOrder& order, const RecomputeGroup& group,
                 IdVector<StorageId, char>& marks) {
  for (Position p : group.recipe) {
    for (const Touch& t : graph.touches_of(order.at[p].op))
      marks[t.storage] = 0;
  }
}

}  // namespace
}  // namespace recomputation_detail

bool gathers(const TrainingGraph& graph, OperatorId op) {
  if (graph.operators[op].work.op_class == OperatorClass::kCollective) return true;
  const std::span<const Touch> touches = graph.touches_of(op);
  return std::any_of(touches.begin(), touches.end(), [&](const Touch& touch) {
    return touch.access == Access::kCreate &&
           graph.storages[touch.storage].role == Role::kGatheredParameter;
  });
}

ProgramOrder insert_recomputation(const TrainingGraph& graph, const ProgramOrder& order,
                                  const Liveness& live, ResidencyPlan& plan) {
  if (plan.groups().empty()) return order;
  auto planned = recomputation_detail::planned_groups(live, plan);
  recomputation_detail::GathersForRecipes(graph, order, live, plan, planned).move();
  const recomputation_detail::WriteHistory history(graph, order);
  ProgramOrder kept = order;
  std::vector<Repeat> gathered;  // come first where others are issued before the same operator
  std::vector<Repeat> repeats;
  IdVector<StorageId, char> in_recipe(graph.storages.size(), 0);
  for (GroupId id : ids_of(plan.groups())) {
    const recomputation_detail::PlannedGroup& group = planned[id];
    const RecomputeGroup& recipe = plan.groups()[id];
    PolicyOutcome& outcome = plan.outcomes()[plan.policy_of(id)];
    if (group.gaps.empty()) continue;
    if (!recomputation_detail::reads_the_same(graph, order, recipe, group.before, history)) {
      outcome.refused += static_cast<std::int64_t>(group.gaps.size());
      outcome.decided -= static_cast<std::int64_t>(group.gaps.size());
      continue;
    }
    // A storage that the recipe changes in place after creating it must be the recomputed copy.
    recomputation_detail::mark_changed(graph, order, recipe, in_recipe);
    Repeat repeat{.before = group.before, .occurrences = {}, .held = recipe.held};
    repeat.occurrences.reserve(recipe.recipe.size());
    for (Position p : recipe.recipe) {
      Occurrence again = order.at[p];
      again.op = recomputation_detail::repeated_by(graph, order.at[p]);
      again.recompute = true;
      again.in_hooks = recipe.in_hooks;
      again.scratch = recomputation_detail::scratch_mask(graph, order, live, plan.decisions(), p,
                                                         again.op, group.before, in_recipe);
      repeat.occurrences.push_back(again);
    }
    recomputation_detail::clear_marks(graph, order, recipe, in_recipe);
    if (order.at[group.before].step + 1 == order.steps) {
      outcome.recomputed_operators +=
          std::count_if(repeat.occurrences.begin(), repeat.occurrences.end(),
                        [&](const Occurrence& again) { return !gathers(graph, again.op); });
    }
    const bool first = recomputation_detail::gathers_only(graph, order, recipe);
    (first ? gathered : repeats).push_back(std::move(repeat));
    kept.kept.insert(kept.kept.end(), recipe.kept.begin(), recipe.kept.end());
  }
  gathered.insert(gathered.end(), std::make_move_iterator(repeats.begin()),
                  std::make_move_iterator(repeats.end()));
  return insert_repeats(kept, std::move(gathered));
}

}  // namespace tidemark
