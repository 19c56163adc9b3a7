// Simulates the stages of a pipeline, one rank for each.
#pragma once

#include "sim/step/simulate.hpp"

namespace tidemark {

// A run of a stage on its device, with events, in which all stages ran together.
struct StageRun {
  RunResult result;
  Scratch scratch;
};

// Examines a stage that has run to its end already; the rest is that of simulate().
[[nodiscard]] PointResult examine_stage(const StepSpec& spec, const TrainedModel& model,
                                        Compiled compiled, StageRun run,
                                        const SimulateOptions& options, PointDetail* detail);

// Runs all stages together, which says when each receives what; then examines each as a rank alone.
// The point's figures, its capacity and its convergence are those of the stage that takes most of
// its device, or of one that does not fit. `compiled` has the programs of the stages.
[[nodiscard]] PointResult simulate_stages(const StepSpec& spec, const TrainedModel& model,
                                          Compiled compiled, const SimulateOptions& options,
                                          PointDetail* detail);

}  // namespace tidemark
