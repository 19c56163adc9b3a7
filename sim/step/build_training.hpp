// Builds the training graph of a step from its model: rewritten, differentiated, with its
// optimizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/analysis/schedule.hpp"
#include "graph/autodiff/differentiate_options.hpp"
#include "graph/core/units.hpp"
#include "graph/import/cost_graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/step/run_pass.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Blocks of a chunk, as the whole model numbers them.
struct StageBlocks {
  int first = 0;
  int count = 0;
};

// A model with training, precision and rewrites applied: immutable, shared by all points that
// agree on them.
struct TrainedModel {
  TrainingGraph training;
  Bytes parameters;  // bytes held persistently by one rank
  Bytes buffers;
  Bytes inputs;
  Bytes gradients;
  Bytes optimizer_state;
  Flops forward_flops;  // flops of one micro-batch
  Flops step_flops;     // flops of all micro-batches, forward and backward, without recomputation
  Elements parameter_count;  // of the whole model, each parameter once
  Elements trainable_parameter_count;
  std::vector<std::string> warnings;  // see training_warnings.hpp
  std::vector<PassTime> passes;

  // A pipeline's stage: its number, the blocks of its chunks, and its work in each step. Empty
  // without a pipeline: the micro-batches run one after another.
  int stage = 0;
  std::vector<StageBlocks> chunks;
  std::vector<ScheduledPart> work;
  // All stages of a pipeline, of which the model itself is the first.
  std::vector<std::shared_ptr<const TrainedModel>> stages;
};
// Throws UserError for a model that cannot be built or has nothing to train, or cannot be cut into
// the stages of its pipeline.
[[nodiscard]] TrainedModel build_training(const StepSpec& spec);
// Sums what the model's training graph holds and computes.
void sum_figures(TrainedModel& model);
// Returns the settings with which the step's model is differentiated.
[[nodiscard]] DifferentiateOptions differentiate_options(const StepSpec& spec);

// Returns one micro-batch of the model on the step's device, as solvers of checkpoint placement see
// it.
[[nodiscard]] CostGraph cost_graph_of(const StepSpec& spec, const TrainingGraph& graph);

}  // namespace tidemark
