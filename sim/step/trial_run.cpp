#include "sim/step/trial_run.hpp"

#include <memory>
#include <vector>

#include "sim/program/lower.hpp"
#include "sim/step/arrivals.hpp"
#include "sim/step/planned_step.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/step_device.hpp"

namespace tidemark {

Compiled StepTrial::compiled(const ResidencyPlan& plan) const {
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
  trial.arrivals = arrivals_at_once(trial.program);
  trial.costs = costs_;
  trial.placement = spec_.allocator->place(trial.program);
  return trial;
}

TrialFigures StepTrial::run(const ResidencyPlan& plan) const {
  const RunResult result = run_compiled(spec_, compiled(plan), scratch_, kUnlimited, false);
  return {
      .peak_live = result.live.bytes, .peak_reserved = result.reserved.bytes, .step = result.step};
}

bool StepTrial::fits(const ResidencyPlan& plan) const {
  const Bytes usable = spec_.device.hbm.capacity - process_overhead(spec_);
  return run_compiled(spec_, compiled(plan), scratch_, usable, false).status ==
         RunStatus::kCompleted;
}

}  // namespace tidemark
