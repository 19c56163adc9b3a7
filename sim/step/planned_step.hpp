// An order of operators with the decisions about its gaps, and how decisions that were made before
// recomputation was inserted come along.
#pragma once

#include <memory>
#include <vector>

#include "graph/analysis/liveness.hpp"
#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/residency_plan.hpp"
#include "sim/step/run_pass.hpp"

namespace tidemark {

// An order of operators and where its values live.
struct OrderedStep {
  ProgramOrder order;
  Liveness live;
};

// A step and which of its gaps are closed by moving. The plan refers to the step, so both stay
// where they are.
struct PlannedStep {
  explicit PlannedStep(OrderedStep ordered) : step(std::move(ordered)), movement(step.live) {}
  PlannedStep(const PlannedStep&) = delete;
  PlannedStep& operator=(const PlannedStep&) = delete;

  OrderedStep step;
  ResidencyPlan movement;
};

// An order and the plan that policies made on it, recomputation and offloads.
struct PlanOnOrder {
  const TrainingGraph& graph;
  const ProgramOrder& order;
  const Liveness& live;
  ResidencyPlan& plan;
};

// Inserts the recomputation that was decided and carries the offloads over, as carry_offloads()
// does; `lost`, if given, receives what that returns. Outcomes of groups that are refused are
// updated in the plan.
[[nodiscard]] std::unique_ptr<PlannedStep> insert_and_carry(const PlanOnOrder& planned,
                                                            std::vector<PassTime>& passes,
                                                            std::vector<GapId>* lost = nullptr);

// Decides the plan's offloads in `movement`, where they lie in the repeated order `step`; the
// outcomes of `movement` stay as they are. A value that recomputation reads comes back for it.
// Returns the gaps of the planned order whose offload no longer frees memory; all, where the
// planned order itself repeats operators and more are inserted.
std::vector<GapId> carry_offloads(const PlanOnOrder& planned, const OrderedStep& step,
                                  ResidencyPlan& movement);

}  // namespace tidemark
