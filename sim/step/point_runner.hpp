// Simulates one step and its model once for all reports about it.
#pragma once

#include <functional>
#include <memory>

#include "sim/step/compile.hpp"
#include "sim/step/point_result.hpp"
#include "sim/step/simulate.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Receives the run behind a point's figures: program, events, timeline.
using DetailSink = std::function<void(const PointResult&, PointDetail)>;

class PointRunner {
 public:
  // `spec` outlives the runner; its model is built here. Throws UserError as build_training() does.
  explicit PointRunner(const StepSpec& spec)
      : PointRunner(spec, std::make_shared<const TrainedModel>(build_training(spec))) {}
  // `model` is that of this spec, or of one with the same training_key.
  PointRunner(const StepSpec& spec, std::shared_ptr<const TrainedModel> model)
      : spec_(spec), model_(std::move(model)) {}

  // Compiles the step and runs it. `sink`, if given, is called once, with the run whose figures are
  // returned, so that a chart needs no second run.
  [[nodiscard]] PointResult run(const SimulateOptions& options,
                                const CompileOptions& compilation = {},
                                const DetailSink& sink = {});

  [[nodiscard]] const std::shared_ptr<const TrainedModel>& model() const { return model_; }
  [[nodiscard]] int runs() const { return runs_; }

 private:
  const StepSpec& spec_;
  std::shared_ptr<const TrainedModel> model_;
  int runs_ = 0;
};

}  // namespace tidemark
