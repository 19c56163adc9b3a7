// Simulates the stages of a pipeline, one rank for each.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "sim/step/simulate.hpp"

namespace tidemark {

// Returns the stage with the most device memory, of those that do not fit if there are any; 0
// without stages.
[[nodiscard]] std::size_t fullest_stage(std::span<const StageResult> stages);

// Returns the figures of a stage that cannot fit whatever the other stages do: those of a run with
// unlimited memory in which nothing that it receives keeps it waiting. Nothing where it may fit.
[[nodiscard]] std::optional<RunResult> run_of_too_large_stage(const StepSpec& spec,
                                                              const TrainedModel& stage);

// A run of a stage to its end, with events, in which all stages ran together: on its device or with
// unlimited memory.
struct StageRun {
  RunResult result;
  Scratch scratch;
  bool unlimited = false;
};

// Examines a stage that has run already; the rest is that of simulate().
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
