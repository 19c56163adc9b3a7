// The rounds in which a scenario's policies decide, each on what the one before it has left:
//
//   sequence       the whole order, with its repeats
//   recomputation  gaps that are closed by computing again; the repeats are then inserted
//   movement       what is still kept moves, over the order with all repeats
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "graph/analysis/liveness.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/policy.hpp"
#include "policies/plan/residency_plan.hpp"
#include "scenarios/pass_time.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/engine/cost_table.hpp"

namespace tidemark {

// An order of operators and where its values live.
struct OrderedStep {
  ProgramOrder order;
  Liveness live;
};

// What every round looks at, and where it says what became of the policies.
struct RoundContext {
  const Scenario& scenario;
  const TrainingGraph& graph;
  const CostTable& costs;
  const DeviceProfile& device;           // with the libraries of the scenario's framework
  std::vector<PolicyOutcome>& outcomes;  // one for each policy, as listed
  std::vector<PassTime>& passes;
  std::vector<const TrainingRewrite*> rewrites;  // as listed

  [[nodiscard]] PolicyContext asked_about(const OrderedStep& step) const;
};

class SequenceRound {
 public:
  // `smaller_budget`: what the same policies decided with less memory, or null.
  SequenceRound(const RoundContext& context, const std::vector<PolicyOutcome>* smaller_budget)
      : context_(context), smaller_budget_(smaller_budget) {}

  // Each sequence policy orders what the one before it returned.
  void run(OrderedStep& step) const;

 private:
  void run_one(std::size_t policy, const SequencePolicy& sequence, OrderedStep& step) const;

  const RoundContext& context_;
  const std::vector<PolicyOutcome>* smaller_budget_;
};

class RecomputationRound {
 public:
  RecomputationRound(const RoundContext& context, OrderedStep planned);
  RecomputationRound(const RecomputationRound&) = delete;  // the plan refers to the planned step
  RecomputationRound& operator=(const RecomputationRound&) = delete;

  void run();
  // The planned order with the repeats that were decided.
  [[nodiscard]] const OrderedStep& result() const { return repeated_ ? *repeated_ : planned_; }
  [[nodiscard]] ProgramOrder take_order();
  // Offloads that were decided beside recomputation come first in the movement; those that no
  // longer free memory count as refused. Then the outcomes are added.
  void finish(ResidencyPlan& movement);

 private:
  void ask_policies();
  void note_decisions_of(std::size_t policy);
  void insert_repeats();

  const RoundContext& context_;
  OrderedStep planned_;
  ResidencyPlan plan_;
  IdVector<GapId, std::optional<std::size_t>> decided_by_;
  std::optional<OrderedStep> repeated_;  // nothing when nothing is repeated
};

class MovementRound {
 public:
  // `step` outlives the round.
  MovementRound(const RoundContext& context, const OrderedStep& step)
      : context_(context), step_(step), plan_(step.live) {}

  void run();
  [[nodiscard]] ResidencyPlan& plan() { return plan_; }

 private:
  const RoundContext& context_;
  const OrderedStep& step_;
  ResidencyPlan plan_;
};

}  // namespace tidemark
