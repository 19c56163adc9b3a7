// The passes in which a step's policies decide, each on what the one before it has left:
//
//   sequence       the whole order, with its repeats
//   recomputation  gaps that are closed by recomputing; the repeats are then inserted
//   movement       what is still kept moves, over the order with all repeats
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "graph/analysis/liveness.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/policy.hpp"
#include "policies/plan/residency_plan.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/planned_step.hpp"
#include "sim/step/run_pass.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Creates the trial run for plans of an order; the order outlives it.
using TrialsOf = std::function<std::unique_ptr<const TrialRun>(const OrderedStep&)>;

class PolicyPasses {
 public:
  // Everything outlives the passes; `times` receives how long each takes.
  PolicyPasses(const StepSpec& spec, const TrainingGraph& graph, const CostTable& costs,
               std::vector<PassTime>& times, TrialsOf trials);

  // Each sequence policy orders what the one before it returned. `smaller_budget` holds the
  // outcomes of the same policies with less memory, or is null. `outcomes` receives one for each
  // policy, as listed. `device_order` says how orders for the whole device are made; where it has
  // no value, it is found by trial runs.
  void order(OrderedStep& step, const std::vector<PolicyOutcome>* smaller_budget,
             std::optional<DeviceOrder>& device_order, std::vector<PolicyOutcome>& outcomes) const;
  // Plans recomputation and movement.
  [[nodiscard]] std::unique_ptr<PlannedStep> plan(OrderedStep step,
                                                  std::vector<PolicyOutcome>& outcomes) const;

 private:
  // The policy that decided each gap; none where no policy decided.
  using DecidedBy = IdVector<GapId, std::optional<std::size_t>>;

  [[nodiscard]] PolicyContext context_for(const OrderedStep& step) const;
  [[nodiscard]] OrderedStep order_by(const SequencePolicy& sequence, const OrderedStep& step,
                                     const PolicyOutcome* smaller_budget, Bytes held_back,
                                     PolicyOutcome& outcome) const;
  // An order for the device, and whether its step runs there.
  struct Tried {
    OrderedStep step;
    PolicyOutcome outcome;
    DeviceOrder how;
    bool fits = false;
  };
  [[nodiscard]] OrderedStep order_for_device(const SequencePolicy& sequence,
                                             const OrderedStep& step,
                                             const PolicyOutcome* smaller_budget,
                                             std::optional<DeviceOrder>& device_order,
                                             PolicyOutcome& outcome) const;
  [[nodiscard]] Tried tried(const SequencePolicy& sequence, const OrderedStep& step,
                            const PolicyOutcome* smaller_budget, const PolicyOutcome& before) const;
  template <class Ask>
  void ask_each(const OrderedStep& step, ResidencyPlan& plan, Ask ask) const;
  [[nodiscard]] DecidedBy plan_recomputation(const OrderedStep& step, ResidencyPlan& plan) const;
  void plan_movement(PlannedStep& planned) const;

  const StepSpec& spec_;
  const TrainingGraph& graph_;
  std::vector<PassTime>& times_;
  TrialsOf trials_;
  IdVector<OperatorId, Duration> durations_;  // duration of compute by operator
  DeviceProfile device_;  // the device with the libraries of the spec's framework
  std::vector<const TrainingRewrite*> rewrites_;  // rewrites in the order in which they are listed
  // false for an evaluation, which keeps nothing for backward: there is nothing to decide
  bool trains_;
};

}  // namespace tidemark
