// Simulates one step and its model once for all reports about it.
#pragma once

#include <functional>
#include <memory>
#include <optional>

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

  // Returns what no run of the step is better than, by the prices of its operators alone: the
  // kernels of one step take `run.step` one after the other, whatever is recomputed, moved and
  // waited for between them. Throughput and cost follow from it. All memory is 0.
  [[nodiscard]] PointResult bound_by_prices() const;
  // Returns a closer bound by the compiled step, which run() then takes over: with the operators
  // that its policies recompute, and with the live bytes of its program on device and host, below
  // which no allocator takes memory. The device's bytes are 0 where a policy evicts, since what is
  // live then depends on it.
  [[nodiscard]] PointResult bound_by_program();

  // Compiles the step and runs it. `sink`, if given, is called once, with the run whose figures are
  // returned, so that a chart needs no second run. `compilation` is not used after
  // bound_by_program().
  [[nodiscard]] PointResult run(const SimulateOptions& options,
                                const CompileOptions& compilation = {},
                                const DetailSink& sink = {});

  [[nodiscard]] const std::shared_ptr<const TrainedModel>& model() const { return model_; }
  [[nodiscard]] int runs() const { return runs_; }

 private:
  const StepSpec& spec_;
  std::shared_ptr<const TrainedModel> model_;
  std::optional<Compiled> compiled_;  // step that bound_by_program() has compiled
  int runs_ = 0;
};

}  // namespace tidemark
