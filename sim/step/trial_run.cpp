#include "sim/step/trial_run.hpp"

#include <memory>
#include <vector>

#include "sim/program/lower.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/planned_step.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/step_device.hpp"

namespace tidemark {

TrialFigures StepTrial::run(const ResidencyPlan& plan) const {
  Compiled trial;
  if (plan.groups().empty()) {
    trial.program =
        lower(graph_, order_, live_, plan.decisions(), libraries_of(spec_), plan.throttles());
  } else {
    ResidencyPlan tried = plan;
    std::vector<PassTime> untimed;
    const std::unique_ptr<PlannedStep> planned =
        insert_and_carry({graph_, order_, live_, tried}, untimed);
    trial.program = lower(graph_, planned->step.order, planned->step.live,
                          planned->movement.decisions(), libraries_of(spec_), tried.throttles());
  }
  trial.costs = costs_;
  trial.placement = spec_.allocator->place(trial.program);
  const RunResult result = run_compiled(spec_, trial, scratch_, kUnlimited, false);
  return {
      .peak_live = result.live.bytes, .peak_reserved = result.reserved.bytes, .step = result.step};
}

}  // namespace tidemark
