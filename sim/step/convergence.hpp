// Finds the step from which on every step reserves what the one before it did.
#pragma once

#include <optional>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/result/timeline.hpp"
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
};

// A search for convergence, with the program of the run that fails, where one does.
struct ConvergenceSearch {
  Convergence found;
  std::optional<Compiled> failing;
};

// Looks at the configured steps and, where they do not show it, at runs of more and more steps, up
// to `limit`, of the same model. `scratch` is that of the configured run, with events. Long
// programs, and orders that a policy has computed, are not repeated.
[[nodiscard]] ConvergenceSearch find_convergence(const StepSpec& spec, const TrainedModel& model,
                                                 const Compiled& compiled, const Scratch& scratch,
                                                 Bytes capacity, int limit);

}  // namespace tidemark
