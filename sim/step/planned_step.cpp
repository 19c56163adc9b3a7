#include "sim/step/planned_step.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "sim/program/lower.hpp"
#include "sim/step/pass_checks.hpp"

namespace tidemark {
namespace planned_step_detail {
namespace {

// Returns where each position of an order moved when recomputation was inserted.
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

GapId gap_behind(const TrainingGraph& graph, const OrderedStep& step, Position p,
                 StorageId storage) {
  const std::span<const Touch> touches = graph.touches_of(step.order.at[p].op);
  for (std::size_t i = 0; i < touches.size(); ++i) {
    if (touches[i].storage == storage) return step.live.after(p, i);
  }
  return {};
}

// Returns the offload with its positions moved, in a gap that is released at `release` and closed
// at `to`.
Offload moved_offload(const Offload& offload, const IdVector<Position, Position>& moved,
                      Position release, Position to) {
  Offload there = offload;
  there.fetch_at = std::min(moved[offload.fetch_at], to);
  if (offload.release_at.valid()) there.release_at = moved[offload.release_at];
  if (!offload.copy_at.valid()) return there;
  there.copy_at = moved[offload.copy_at];
  // A value that is held longer now leaves the device when it can.
  const bool in_time = !there.release_at.valid() || there.copy_at <= there.release_at;
  if (there.copy_at <= release || there.copy_at >= there.fetch_at || !in_time) {
    there.copy_at = Position();
  }
  return there;
}

bool frees_memory(const Offload& offload, Position release) {
  if (!offload.release_at.valid()) return offload.fetch_at > release;
  return offload.release_at > release && offload.fetch_at > offload.release_at;
}

}  // namespace
}  // namespace planned_step_detail

std::vector<GapId> carry_offloads(const PlanOnOrder& planned, const OrderedStep& step,
                                  ResidencyPlan& movement) {
  std::vector<GapId> lost;
  const std::vector<PolicyOutcome> outcomes = movement.outcomes();
  if (outcomes.empty()) movement.begin_policy(0, "");
  const IdVector<Position, Position> moved =
      planned_step_detail::moved_positions(planned.order, step.order);
  const bool known = moved.size() == planned.order.at.size();
  for (GapId id : ids_of(planned.plan.decisions())) {
    const auto* offload = std::get_if<Offload>(&planned.plan.decision(id));
    if (offload == nullptr) continue;
    bool carried = false;
    if (known) {
      const Gap& gap = planned.live.gaps[id];
      const GapId now =
          planned_step_detail::gap_behind(planned.graph, step, moved[gap.from], gap.storage);
      if (now.valid() && step.live.gaps[now].open()) {
        const Gap& repeated = step.live.gaps[now];
        const Offload there =
            planned_step_detail::moved_offload(*offload, moved, repeated.release, repeated.to);
        carried = planned_step_detail::frees_memory(there, repeated.release) &&
                  movement.decide(now, there);
      }
    }
    if (!carried) lost.push_back(id);
  }
  movement.outcomes() = outcomes;
  return lost;
}

std::unique_ptr<PlannedStep> insert_and_carry(const PlanOnOrder& planned,
                                              std::vector<PassTime>& passes,
                                              std::vector<GapId>* lost) {
  OrderedStep step;
  step.order = run_pass(passes, "insert recomputation", [&] {
    return insert_recomputation(planned.graph, planned.order, planned.live, planned.plan);
  });
  step.live = run_pass(
      passes, "liveness again", [&] { return analyze_liveness(planned.graph, step.order); },
      [&](const Liveness& live) { check_liveness(planned.graph, step.order, live); });
  auto result = std::make_unique<PlannedStep>(std::move(step));
  std::vector<GapId> refused = carry_offloads(planned, result->step, result->movement);
  if (lost != nullptr) *lost = std::move(refused);
  return result;
}

}  // namespace tidemark
