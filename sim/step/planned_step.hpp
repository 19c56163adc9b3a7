// An order of operators with the decisions about its gaps, and the offloads that are carried over
// when recomputation is inserted after they were decided.
#pragma once

#include <memory>
#include <vector>

#include "graph/analysis/liveness.hpp"
#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/residency_plan.hpp"
#include "sim/step/run_pass.hpp"

namespace tidemark {

// An order of operators and the gaps of its values.
struct OrderedStep {
  ProgramOrder order;
  Liveness live;
};

// A step and the offloads of its gaps. The plan refers to the step, so both stay where they are in
// memory.
struct PlannedStep {
  explicit PlannedStep(OrderedStep ordered) : step(std::move(ordered)), movement(step.live) {}
  PlannedStep(const PlannedStep&) = delete;
  PlannedStep& operator=(const PlannedStep&) = delete;

  OrderedStep step;
  ResidencyPlan movement;
};

// An order and the plan that policies made for it, recomputation and offloads.
struct PlanOnOrder {
  const TrainingGraph& graph;
  const ProgramOrder& order;
  const Liveness& live;
  ResidencyPlan& plan;
};

// Inserts the recomputation that was decided and carries the offloads over, as carry_offloads()
// does; `lost`, if given, receives the result of that call. Outcomes of groups that are refused are
// updated in the plan.
[[nodiscard]] std::unique_ptr<PlannedStep> insert_and_carry(const PlanOnOrder& planned,
                                                            std::vector<PassTime>& passes,
                                                            std::vector<GapId>* lost = nullptr);

// Decides the plan's offloads in `movement`, at their places in the order `step` with
// recomputation; the outcomes of `movement` stay as they are. A value that recomputation reads
// comes back for it. Returns the gaps of the planned order whose offload no longer frees memory;
// all, where the planned order itself repeats operators and more are inserted.
std::vector<GapId> carry_offloads(const PlanOnOrder& planned, const OrderedStep& step,
                                  ResidencyPlan& movement);

}  // namespace tidemark
