#include "graph/analysis/liveness.hpp"

#include <algorithm>
#include <span>

#include "graph/analysis/instances.hpp"

namespace tidemark {
namespace liveness_detail {
namespace {

// Holds by the operator that ends them, and local variables by the operator that starts them.
struct HoldIndex {
  std::vector<std::uint32_t> first_ending;  // by operator, one more than operators
  std::vector<Hold> ending;
  std::vector<std::uint32_t> first_starting;
  std::vector<StorageId> starting;

  explicit HoldIndex(const TrainingGraph& graph)
      : first_ending(graph.operators.size() + 1, 0),
        ending(graph.holds.size()),
        first_starting(graph.operators.size() + 1, 0) {
    for (const Hold& hold : graph.holds) {
      ++first_ending[hold.until.index() + 1];
      if (hold.since.valid()) ++first_starting[hold.since.index() + 1];
    }
    for (std::size_t i = 1; i < first_ending.size(); ++i) {
      first_ending[i] += first_ending[i - 1];
      first_starting[i] += first_starting[i - 1];
    }
    starting.resize(first_starting.back());
    std::vector<std::uint32_t> next_end(first_ending.begin(), first_ending.end() - 1);
    std::vector<std::uint32_t> next_start(first_starting.begin(), first_starting.end() - 1);
    for (const Hold& hold : graph.holds) {
      ending[next_end[hold.until.index()]++] = hold;
      if (hold.since.valid()) starting[next_start[hold.since.index()]++] = hold.storage;
    }
  }
  [[nodiscard]] std::span<const Hold> ending_at(OperatorId op) const {
    return std::span(ending).subspan(first_ending[op.index()],
                                     first_ending[op.index() + 1] - first_ending[op.index()]);
  }
  [[nodiscard]] std::span<const StorageId> starting_at(OperatorId op) const {
    return std::span(starting).subspan(first_starting[op.index()],
                                       first_starting[op.index() + 1] - first_starting[op.index()]);
  }
};

}  // namespace
}  // namespace liveness_detail

Liveness analyze_liveness(const TrainingGraph& graph, const ProgramOrder& order) {
  Liveness live;
  const Instances instances(graph, order);
  live.first_touch.resize(order.at.size());
  IdVector<InstanceId, std::uint32_t> first_gap(instances.size() + 1, 0);
  std::uint32_t touches = 0;
  for (Position p : ids_of(order.at)) {
    const Occurrence& occurrence = order.at[p];
    live.first_touch[p] = touches;
    const std::span<const Touch> op_touches = graph.touches_of(occurrence.op);
    touches += static_cast<std::uint32_t>(op_touches.size());
    for (std::size_t i = 0; i < op_touches.size(); ++i) {
      if (is_scratch(occurrence, i)) continue;
      ++first_gap[InstanceId(instances.of(op_touches[i].storage, occurrence.instance).value + 1)];
    }
  }
  for (std::size_t i = 1; i <= instances.size(); ++i)
    first_gap[InstanceId(i)] += first_gap[InstanceId(i - 1)];
  live.gap_after.resize(touches);
  live.gaps.resize(first_gap.back());

  const liveness_detail::HoldIndex holds(graph);
  std::vector<const Kept*> kept;  // storages that frames keep, by end
  for (const Kept& k : order.kept) {
    if (k.storage.valid()) kept.push_back(&k);
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Kept* a, const Kept* b) { return a->until < b->until; });
  auto next_kept = kept.begin();
  IdVector<InstanceId, GapId> current(instances.size());  // the gap that is open
  IdVector<InstanceId, int> variables(instances.size(), 0);
  for (Position p : ids_of(order.at)) {
    const Occurrence& occurrence = order.at[p];
    const std::span<const Touch> op_touches = graph.touches_of(occurrence.op);
    for (std::size_t i = 0; i < op_touches.size(); ++i) {
      if (is_scratch(occurrence, i)) continue;
      const InstanceId s = instances.of(op_touches[i].storage, occurrence.instance);
      GapId gap(first_gap[s]);
      if (current[s].valid()) {
        Gap& before = live.gaps[current[s]];
        before.to = p;
        before.dead = op_touches[i].access == Access::kCreate;
        before.pinned = !before.dead && variables[s] > 0;
        // Variables end with the content they name; those that a repeat starts have no other end.
        if (before.dead) variables[s] = 0;
        gap = GapId(current[s].value + 1);
      }
      live.gaps[gap] = {.storage = op_touches[i].storage,
                        .from = p,
                        .to = {},
                        .release = p,
                        .instance = occurrence.instance};
      current[s] = gap;
      live.gap_after[live.first_touch[p] + i] = gap;
    }
    for (StorageId s : holds.starting_at(occurrence.op))
      ++variables[instances.of(s, occurrence.instance)];
    for (const Hold& hold : holds.ending_at(occurrence.op)) {
      const InstanceId held = instances.of(hold.storage, occurrence.instance);
      if (hold.since.valid() && variables[held] > 0) --variables[held];
      if (current[held].valid()) live.gaps[current[held]].release = p;
    }
    for (; next_kept != kept.end() && (*next_kept)->until == p; ++next_kept) {
      const GapId gap = current[instances.of((*next_kept)->storage, occurrence.instance)];
      if (gap.valid()) live.gaps[gap].release = p;
    }
  }
  for (GapId last : current) {
    if (!last.valid()) continue;
    const Storage& storage = graph.storages[live.gaps[last].storage];
    live.gaps[last].dead = !storage.persistent && !storage.initial;
  }
  return live;
}

}  // namespace tidemark
