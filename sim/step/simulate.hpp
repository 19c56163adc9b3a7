// Simulates one step: compiles it, runs it on its device, and reports the result.
#pragma once

#include <memory>
#include <vector>

#include "sim/engine/engine.hpp"
#include "sim/result/timeline.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/point_result.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// The memory of one stage of a pipeline, all of whose stages run together.
struct StageDetail {
  std::shared_ptr<const TrainedModel> model;
  Compiled compiled;
  MemoryTimeline timeline;
};

// The run behind the figures, for charts and explanations. The timeline covers the last step.
struct PointDetail {
  std::shared_ptr<const TrainedModel> model;
  Compiled compiled;
  Scratch scratch;
  MemoryTimeline timeline;
  std::vector<StageDetail> stages;  // of a pipeline, in their order
};

struct SimulateOptions {
  bool smallest_capacity = true;
  // Finds it also for steps that fit, whose memory does not hang on it.
  bool smallest_capacity_of_fitting = true;
  // Most steps to run until what is reserved repeats; 0: the configured ones must show it.
  int convergence_limit = 0;
  bool suggestions = false;  // suggests changes; for callers that have the document
  std::size_t largest_tensors = 10;
};
// Steps that suffice for most: the first step creates the optimizer's state, the next ones reuse
// its holes.
inline constexpr int kConvergenceLimit = 8;

// Returns the figures of the model and the device, which no run changes.
[[nodiscard]] PointResult model_figures(const StepSpec& spec, const TrainedModel& model);
// Fills in the throughput and the cost of a step that takes as long as `point.run` says.
void fill_throughput(const StepSpec& spec, const TrainedModel& model, PointResult& point);

// Runs one point. `detail`, if given, is filled for charts.
[[nodiscard]] PointResult simulate(const StepSpec& spec, const TrainedModel& model,
                                   const SimulateOptions& options, PointDetail* detail = nullptr);
// Runs one point whose program is compiled already, for this spec or for one that differs in its
// allocator only.
[[nodiscard]] PointResult simulate(const StepSpec& spec, const TrainedModel& model,
                                   Compiled compiled, const SimulateOptions& options,
                                   PointDetail* detail = nullptr);

}  // namespace tidemark
