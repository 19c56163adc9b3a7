// Builds the training graph of a step from its model: rewritten, differentiated, with its
// optimizer.
#pragma once

#include <vector>

#include "graph/core/units.hpp"
#include "graph/import/cost_graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/step/run_pass.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

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
  std::vector<PassTime> passes;
};
// Throws UserError for a model that cannot be built or has nothing to train.
[[nodiscard]] TrainedModel build_training(const StepSpec& spec);

// Returns one micro-batch of the model on the step's device, as solvers of checkpoint placement see
// it.
[[nodiscard]] CostGraph cost_graph_of(const StepSpec& spec, const TrainingGraph& graph);

}  // namespace tidemark
