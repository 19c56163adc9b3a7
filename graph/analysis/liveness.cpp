#include "graph/analysis/liveness.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

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

// Returns the storages that frames keep, by end.
std::vector<const Kept*> kept_by_end(const ProgramOrder& order) {
  std::vector<const Kept*> kept;
  for (const Kept& k : order.kept) {
    if (k.storage.valid()) kept.push_back(&k);
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Kept* a, const Kept* b) { return a->until < b->until; });
  return kept;
}

// The gaps along a program order: each touch ends the gap that its instance has open and opens the
// next; holds delay releases.
class GapWalk {
 public:
  GapWalk(const TrainingGraph& graph, const ProgramOrder& order)
      : graph_(graph),
        order_(order),
        instances_(graph, order),
        holds_(graph),
        kept_(kept_by_end(order)),
        first_gap_(instances_.size() + 1, 0),
        current_(instances_.size()),
        variables_(instances_.size(), 0) {}

  Liveness run() {
    lay_out_gaps();
    for (Position p : ids_of(order_.at)) {
      const Occurrence& occurrence = order_.at[p];
      const std::span<const Touch> touches = graph_.touches_of(occurrence.op);
      for (std::size_t i = 0; i < touches.size(); ++i) {
        if (is_scratch(occurrence, i)) continue;
        live_.gap_after[live_.first_touch[p] + i] = touch(p, touches[i], occurrence.instance);
      }
      update_holds(p);
      end_kept(p);
    }
    mark_ends();
    return std::move(live_);
  }

 private:
  // Counts the touches of each instance, which places its gaps in the table.
  void lay_out_gaps() {
    live_.first_touch.resize(order_.at.size());
    std::uint32_t touches = 0;
    for (Position p : ids_of(order_.at)) {
      const Occurrence& occurrence = order_.at[p];
      live_.first_touch[p] = touches;
      const std::span<const Touch> op_touches = graph_.touches_of(occurrence.op);
      touches += static_cast<std::uint32_t>(op_touches.size());
      for (std::size_t i = 0; i < op_touches.size(); ++i) {
        if (is_scratch(occurrence, i)) continue;
        const InstanceId s = instances_.of(op_touches[i].storage, occurrence.instance);
        ++first_gap_[InstanceId(s.value + 1)];
      }
    }
    for (std::size_t i = 1; i <= instances_.size(); ++i)
      first_gap_[InstanceId(i)] += first_gap_[InstanceId(i - 1)];
    live_.gap_after.resize(touches);
    live_.gaps.resize(first_gap_.back());
  }

  // Ends the open gap of the instance that is touched and returns the gap that the touch opens.
  GapId touch(Position p, const Touch& touch, std::uint16_t instance) {
    const InstanceId s = instances_.of(touch.storage, instance);
    GapId gap(first_gap_[s]);
    if (current_[s].valid()) {
      Gap& before = live_.gaps[current_[s]];
      before.to = p;
      before.dead = touch.access == Access::kCreate;
      before.held_by_variable = !before.dead && variables_[s] > 0;
      // Variables end with the content they name; those that a repeat starts have no other end.
      if (before.dead) variables_[s] = 0;
      gap = GapId(current_[s].value + 1);
    }
    live_.gaps[gap] = {
        .storage = touch.storage, .from = p, .to = {}, .release = p, .instance = instance};
    current_[s] = gap;
    return gap;
  }

  // Starts the variables that begin with the operator at `p` and ends the holds that end with it.
  void update_holds(Position p) {
    const Occurrence& occurrence = order_.at[p];
    for (StorageId s : holds_.starting_at(occurrence.op))
      ++variables_[instances_.of(s, occurrence.instance)];
    for (const Hold& hold : holds_.ending_at(occurrence.op)) {
      const InstanceId held = instances_.of(hold.storage, occurrence.instance);
      if (hold.since.valid() && variables_[held] > 0) --variables_[held];
      if (current_[held].valid()) live_.gaps[current_[held]].release = p;
    }
  }

  // Frames that end at `p` release what they keep.
  void end_kept(Position p) {
    const std::uint16_t instance = order_.at[p].instance;
    for (; next_kept_ < kept_.size() && kept_[next_kept_]->until == p; ++next_kept_) {
      const GapId gap = current_[instances_.of(kept_[next_kept_]->storage, instance)];
      if (gap.valid()) live_.gaps[gap].release = p;
    }
  }

  // A gap without an end is dead unless the content outlives the step.
  void mark_ends() {
    for (GapId last : current_) {
      if (!last.valid()) continue;
      const Storage& storage = graph_.storages[live_.gaps[last].storage];
      live_.gaps[last].dead = !storage.persistent && !storage.initial;
    }
  }

  const TrainingGraph& graph_;
  const ProgramOrder& order_;
  Instances instances_;
  HoldIndex holds_;
  std::vector<const Kept*> kept_;
  std::size_t next_kept_ = 0;
  IdVector<InstanceId, std::uint32_t> first_gap_;
  IdVector<InstanceId, GapId> current_;  // the gap that is open
  IdVector<InstanceId, int> variables_;  // local variables that name the content
  Liveness live_;
};

}  // namespace
}  // namespace liveness_detail

Liveness analyze_liveness(const TrainingGraph& graph, const ProgramOrder& order) {
  return liveness_detail::GapWalk(graph, order).run();
}

}  // namespace tidemark
