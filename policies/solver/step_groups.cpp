#include "policies/solver/step_groups.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

namespace tidemark {
namespace step_groups_detail {
namespace {

class Grouping {
 public:
  Grouping(const TrainingGraph& graph, std::span<const OperatorId> ops) : graph_(graph), ops_(ops) {
    result_.touches.resize(graph.storages.size());
    result_.read_later.resize(graph.storages.size());
    result_.once.resize(ops.size());
    result_.group.resize(ops.size());
  }

  StepGroups run() {
    list_touches();
    while (!order_groups())
      ;
    for (StepIndex i = 0; i < ops_.size(); ++i)
      result_.group[i] = root(i);
    return std::move(result_);
  }

 private:
  void list_touches();
  void list_holds(const IdVector<OperatorId, StepIndex>& index);
  // Finds the operators that run once, and the operators in place that are one with those that make
  // their storage.
  void find_groups();
  [[nodiscard]] bool may_fuse(StorageId s) const;
  [[nodiscard]] StepIndex root(StepIndex at) {
    std::vector<StepIndex>& group = result_.group;
    while (group[at] != at)
      at = group[at] = group[group[at]];
    return at;
  }
  // Adds edges between groups; false when groups form a cycle, which are then split up.
  bool order_groups();

  const TrainingGraph& graph_;
  std::span<const OperatorId> ops_;
  std::set<StorageId> apart_;  // storages whose writers would form a cycle as one group
  StepGroups result_;          // `group` is a union-find until the end
};

void Grouping::list_touches() {
  IdVector<OperatorId, StepIndex> index(graph_.operators.size(), kNoStep);
  for (StepIndex i = 0; i < ops_.size(); ++i) {
    index[ops_[i]] = i;
    for (const Touch& touch : graph_.touches_of(ops_[i]))
      result_.touches[touch.storage].push_back({i, touch.access});
  }
  list_holds(index);
  for (const auto* part :
       {&graph_.part(PartKind::kOptimizer), &graph_.part(PartKind::kOptimizerFirst),
        &graph_.part(PartKind::kAfterOptimizer), &graph_.part(PartKind::kEndOfStep)}) {
    for (const OperatorId op : *part) {
      for (const Touch& touch : graph_.touches_of(op)) {
        if (touch.access != Access::kCreate) result_.read_later[touch.storage] = 1;
      }
    }
  }
  for (const StorageId s : ids_of(graph_.storages)) {
    if (graph_.storages[s].persistent) result_.read_later[s] = 1;
    // It is copied home when the micro-batch has done with it.
    if (graph_.storages[s].home != Tier::kDevice) result_.read_later[s] = 0;
  }
}

void Grouping::list_holds(const IdVector<OperatorId, StepIndex>& index) {
  for (const Hold& hold : graph_.holds) {
    std::vector<TouchAt>& touches = result_.touches[hold.storage];
    if (!result_.is_made_here(hold.storage)) continue;
    const StepIndex until = index[hold.until];
    if (until == kNoStep) {
      const bool since_here = !hold.since.valid() || index[hold.since] != kNoStep;
      if (hold.kind == HoldKind::kLocal && since_here) result_.read_later[hold.storage] = 1;
      continue;
    }
    const auto at =
        std::upper_bound(touches.begin(), touches.end(), until,
                         [](StepIndex u, const TouchAt& touch) { return u < touch.at; });
    const bool touched = at != touches.begin() && std::prev(at)->at == until;
    if (at != touches.begin() && !touched) touches.insert(at, {until, Access::kRead, true});
  }
}

// Whether every touch up to the last write is a write: then no operator has read the overwritten
// content.
bool Grouping::may_fuse(StorageId s) const {
  const std::vector<TouchAt>& touches = result_.touches[s];
  if (!result_.is_made_here(s) || graph_.storages[s].persistent || apart_.contains(s)) return false;
  // As one, a sum of gradients would hold all its terms until the last of them is there.
  if (graph_.operators[ops_[touches.front().at]].phase == Phase::kBackward) return false;
  bool read = false;
  for (std::size_t k = 0; k < touches.size(); ++k) {
    if (touches[k].hold) continue;
    if (!writes(touches[k])) {
      read = true;
    } else if (read || result_.once[touches[k].at] ||
               (k > 0 && touches[k].access == Access::kCreate)) {
      return false;
    }
  }
  return true;
}

void Grouping::find_groups() {
  for (StepIndex i = 0; i < ops_.size(); ++i)
    result_.once[i] = result_.once[i] || writes_persistent(graph_, ops_[i]);
  bool changed = true;
  while (changed) {
    changed = false;
    std::iota(result_.group.begin(), result_.group.end(), StepIndex{0});
    for (const StorageId s : ids_of(graph_.storages)) {
      const std::vector<TouchAt>& touches = result_.touches[s];
      const auto count = std::count_if(touches.begin(), touches.end(), writes);
      if (count == 0 || (count == 1 && result_.is_made_here(s))) continue;
      const bool fuse = may_fuse(s);
      const auto last =
          std::find_if(touches.rbegin(), touches.rend(), writes);  // content is final from here on
      for (auto touch = touches.begin(); touch != last.base(); ++touch) {
        if (fuse) {
          const StepIndex a = root(touches.front().at);
          const StepIndex b = root(touch->at);
          result_.group[std::max(a, b)] = std::min(a, b);
        } else if (!touch->hold && !result_.once[touch->at]) {
          result_.once[touch->at] = changed = true;
        }
      }
    }
    // No member of a group that has to run once may be recomputed.
    for (StepIndex i = 0; i < ops_.size(); ++i) {
      const StepIndex first = root(i);
      if (result_.once[i] == result_.once[first]) continue;
      result_.once[i] = result_.once[first] = changed = true;
    }
  }
}

bool Grouping::order_groups() {
  find_groups();
  std::vector<std::vector<StepIndex>> next(ops_.size());
  std::vector<int> open(ops_.size());
  std::vector<StepIndex> last(ops_.size());
  for (StepIndex i = 0; i < ops_.size(); ++i)
    last[root(i)] = i;
  for_each_edge(result_, [&](StepIndex from, StepIndex to, bool) {
    from = root(from);
    to = root(to);
    if (from == to) return;
    next[from].push_back(to);
    ++open[to];
  });
  // Keeps the program's order, each group at its last operator.
  using Ready = std::pair<StepIndex, StepIndex>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (StepIndex i = 0; i < ops_.size(); ++i) {
    if (root(i) == i && open[i] == 0) ready.emplace(last[i], i);
  }
  result_.order.clear();
  while (!ready.empty()) {
    const StepIndex group = ready.top().second;
    ready.pop();
    result_.order.push_back(group);
    for (const StepIndex to : next[group]) {
      if (--open[to] == 0) ready.emplace(last[to], to);
    }
  }
  // The first group that could not be ordered is on a cycle or after one.
  StorageId stuck;
  for (const StorageId s : ids_of(graph_.storages)) {
    const std::vector<TouchAt>& touches = result_.touches[s];
    if (!may_fuse(s) || std::count_if(touches.begin(), touches.end(), writes) < 2) continue;
    if (open[root(touches.front().at)] == 0) continue;
    if (!stuck.valid() || touches.front().at < result_.touches[stuck].front().at) stuck = s;
  }
  if (stuck.valid()) apart_.insert(stuck);
  return !stuck.valid();
}

}  // namespace
}  // namespace step_groups_detail

StepGroups group_operators(const TrainingGraph& graph, std::span<const OperatorId> micro_batch) {
  return step_groups_detail::Grouping(graph, micro_batch).run();
}

}  // namespace tidemark
