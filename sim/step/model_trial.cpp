#include "sim/step/model_trial.hpp"

#include <memory>
#include <vector>

#include "graph/analysis/liveness.hpp"
#include "graph/analysis/program_order.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/program/lower.hpp"
#include "sim/step/policy_passes.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/step_device.hpp"
#include "sim/step/trial_run.hpp"

namespace tidemark {

Bytes live_peak(const StepSpec& spec, const TrainingGraph& graph) {
  Compiled trial;
  trial.costs = price(graph, CostModel(spec.device), spec.mesh);
  const PolicyPasses policies(spec, graph, trial.costs, trial.passes, [&](const OrderedStep& at) {
    return std::make_unique<const StepTrial>(spec, graph, trial.costs, at.order, at.live);
  });
  const bool trains = spec.training.mode == StepMode::kTrain;
  OrderedStep step;
  step.order = program_order(graph, trains ? training_schedule(graph) : forward_schedule(graph),
                             spec.training.steps);
  step.live = analyze_liveness(graph, step.order);
  std::vector<PolicyOutcome> outcomes(spec.policies.size());
  std::optional<DeviceOrder> device_order;
  policies.order(step, nullptr, device_order, outcomes);
  const std::unique_ptr<PlannedStep> planned = policies.plan(std::move(step), outcomes);
  trial.program =
      lower(graph, planned->step.order, planned->step.live, planned->movement.decisions(),
            libraries_of(spec), planned->movement.throttles());
  if (spec.allocator->traits().plans_ahead) trial.placement = spec.allocator->place(trial.program);
  Scratch scratch;
  return run_compiled(spec, trial, scratch, kUnlimited, false).live.bytes;
}

}  // namespace tidemark
