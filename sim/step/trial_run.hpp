// Trial runs of plans, for policies that must try them.
#pragma once

#include "graph/analysis/liveness.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/policy.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/engine/engine.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Runs plans of one order on the spec's allocator without a memory limit.
class StepTrial final : public TrialRun {
 public:
  StepTrial(const StepSpec& spec, const TrainingGraph& graph, const CostTable& costs,
            const ProgramOrder& order, const Liveness& live)
      : spec_(spec), graph_(graph), costs_(costs), order_(order), live_(live) {}
  [[nodiscard]] TrialFigures run(const ResidencyPlan& plan) const override;
  [[nodiscard]] bool fits(const ResidencyPlan& plan) const override;

 private:
  [[nodiscard]] Compiled compiled(const ResidencyPlan& plan) const;

  const StepSpec& spec_;
  const TrainingGraph& graph_;
  const CostTable& costs_;
  const ProgramOrder& order_;
  const Liveness& live_;
  mutable Scratch scratch_;  // reused by all runs
};

}  // namespace tidemark
