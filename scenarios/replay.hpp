// Plans tried out for policies that must try, and plans whose offloads were decided before the
// recomputation was inserted.
#pragma once

#include <vector>

#include "policies/plan/policy.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// What round 1 was asked about, and what came of it.
struct PlannedRound {
  const TrainingGraph& graph;
  const ProgramOrder& order;
  const Liveness& live;
  const ResidencyPlan& plan;
};
// The same order with the plan's recomputation inserted.
struct RepeatedRound {
  const ProgramOrder& order;
  const Liveness& live;
};
// Decides the offloads of round 1 in `movement`, where they lie in the repeated order; the outcomes
// of `movement` stay as they are. A value that recomputation reads comes back for it. Returns the
// gaps of round 1 whose offload no longer frees memory; all, where the planned order itself repeats
// operators and more are inserted.
std::vector<GapId> carry_offloads(const PlannedRound& planned, const RepeatedRound& repeated,
                                  ResidencyPlan& movement);

// Runs plans on the scenario's allocator without a memory limit.
class ScenarioReplay final : public PlanReplay {
 public:
  ScenarioReplay(const Scenario& scenario, const TrainingGraph& graph, const CostTable& costs,
                 const ProgramOrder& order, const Liveness& live)
      : scenario_(scenario), graph_(graph), costs_(costs), order_(order), live_(live) {}
  [[nodiscard]] ReplayFigures run(const ResidencyPlan& plan) const override;

 private:
  const Scenario& scenario_;
  const TrainingGraph& graph_;
  const CostTable& costs_;
  const ProgramOrder& order_;
  const Liveness& live_;
  mutable Scratch scratch_;  // kept, so that each run finds its memory
};

}  // namespace tidemark
