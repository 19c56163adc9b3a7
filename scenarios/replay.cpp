#include "scenarios/replay.hpp"

#include <algorithm>
#include <variant>

#include "scenarios/compile.hpp"
#include "scenarios/run_compiled.hpp"
#include "sim/program/lower.hpp"

namespace tidemark {
namespace {

// Where each position of an order went when recomputation was inserted.
IdVector<Position, Position> moved_positions(const ProgramOrder& order,
                                             const ProgramOrder& repeated) {
  IdVector<Position, Position> moved;
  moved.reserve(order.at.size());
  const bool same = order.at.size() == repeated.at.size();
  for (Position p : ids_of(repeated.at)) {
    if (same || !repeated.at[p].recompute) moved.push_back(p);
  }
  return moved;
}

GapId gap_behind(const TrainingGraph& graph, const ProgramOrder& order, const Liveness& live,
                 Position p, StorageId storage) {
  const std::span<const Touch> touches = graph.touches_of(order.at[p].op);
  for (std::size_t i = 0; i < touches.size(); ++i) {
    if (touches[i].storage == storage) return live.after(p, i);
  }
  return {};
}

}  // namespace

std::vector<GapId> carry_offloads(const PlannedRound& planned, const RepeatedRound& repeated,
                                  ResidencyPlan& movement) {
  std::vector<GapId> lost;
  const std::vector<PolicyOutcome> outcomes = movement.outcomes();
  if (outcomes.empty()) movement.begin_policy(0, "");
  const IdVector<Position, Position> moved = moved_positions(planned.order, repeated.order);
  const bool known = moved.size() == planned.order.at.size();
  for (GapId id : ids_of(planned.plan.decisions())) {
    const auto* offload = std::get_if<Offload>(&planned.plan.decision(id));
    if (offload == nullptr) continue;
    bool carried = false;
    if (known) {
      const Gap& gap = planned.live.gaps[id];
      const GapId now =
          gap_behind(planned.graph, repeated.order, repeated.live, moved[gap.from], gap.storage);
      if (now.valid() && repeated.live.gaps[now].open()) {
        Offload there = *offload;
        there.fetch_at = std::min(moved[offload->fetch_at], repeated.live.gaps[now].to);
        if (offload->release_at.valid()) there.release_at = moved[offload->release_at];
        const Position release = repeated.live.gaps[now].release;
        const bool frees = there.release_at.valid()
                               ? there.release_at > release && there.fetch_at > there.release_at
                               : there.fetch_at > release;
        carried = frees && movement.decide(now, there);
      }
    }
    if (!carried) lost.push_back(id);
  }
  movement.outcomes() = outcomes;
  return lost;
}

ReplayFigures ScenarioReplay::run(const ResidencyPlan& plan) const {
  ResidencyPlan tried = plan;
  Compiled trial;
  trial.order = insert_recomputation(graph_, order_, live_, tried);
  const Liveness live = analyze_liveness(graph_, trial.order);
  ResidencyPlan movement(live);
  if (tried.groups().empty()) {
    trial.program = lower(graph_, trial.order, live_, tried.decisions(), libraries_of(scenario_),
                          tried.throttles());
  } else {
    carry_offloads({graph_, order_, live_, tried}, {trial.order, live}, movement);
    trial.program = lower(graph_, trial.order, live, movement.decisions(), libraries_of(scenario_),
                          tried.throttles());
  }
  trial.costs = costs_;
  if (scenario_.allocator == AllocatorKind::kPacked) trial.placement = place_program(trial.program);
  const RunResult result = run_compiled(scenario_, trial, scratch_, kUnlimited, false);
  return {
      .peak_live = result.live.bytes, .peak_reserved = result.reserved.bytes, .step = result.step};
}

}  // namespace tidemark
