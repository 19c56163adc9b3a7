// Finds the step from which on every step reserves what the one before it did.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/program/allocator_calls.hpp"
#include "sim/result/timeline.hpp"
#include "sim/step/arrivals.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Memory that the steps reserve, one by one.
struct Convergence {
  std::vector<StepReserved> steps;  // all steps that were run
  // The first step from which on nothing changes; none: not within `steps`.
  std::optional<int> step;
  // The step that runs out of memory where the configured ones fit: a point with it does not fit.
  std::optional<int> fails_in;
  // A step beyond the configured ones released cached memory to go on: with more memory the steps
  // would reserve more. Not in documents.
  bool retried = false;
};

// Programs of the same step that run it more often than configured, each compiled once.
class LongerPrograms {
 public:
  // `compiled` is the configured program; all three outlive this.
  LongerPrograms(const StepSpec& spec, const TrainedModel& model, const Compiled& compiled)
      : spec_(spec),
        model_(model),
        size_(compiled.program.size()),
        smaller_budget_(compiled.smaller_budget),
        device_order_(compiled.device_order),
        arrivals_(arrivals_by_step(compiled.arrivals, compiled.program, compiled.order)) {}
  [[nodiscard]] const StepSpec& spec() const { return spec_; }
  // Null where the program would be too long to be compiled only to look for convergence.
  [[nodiscard]] const Compiled* of(int steps);

 private:
  const StepSpec& spec_;
  const TrainedModel& model_;
  std::size_t size_;  // instructions of the configured steps
  std::vector<PolicyOutcome> smaller_budget_;
  std::optional<DeviceOrder> device_order_;
  ArrivalsByStep arrivals_;
  std::map<int, Compiled> known_;
};

// A search for convergence, with the program of the run that fails; null where none does.
struct ConvergenceSearch {
  Convergence found;
  const Compiled* failing = nullptr;
};

// Looks at the steps of `compiled` and, where they do not show it, at runs of more and more steps,
// up to `limit`, of the same model, by the program's `calls` where they suffice (null: there are
// none). `scratch` is that of the run of `compiled`, with events; `left` is the allocator that it
// has left after no retry, of the same capacity, or null.
[[nodiscard]] ConvergenceSearch find_convergence(LongerPrograms& longer, const Compiled& compiled,
                                                 const AllocatorCalls* calls,
                                                 const Scratch& scratch, Bytes capacity, int limit,
                                                 AllocatorAfterRun* left = nullptr);

}  // namespace tidemark
