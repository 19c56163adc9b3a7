// Builds the training graph of a step from its model: rewritten, differentiated, with its
// optimizer.
#pragma once

#include "graph/autodiff/differentiate_options.hpp"
#include "graph/import/cost_graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/step/step_spec.hpp"
#include "sim/step/trained_model.hpp"

namespace tidemark {

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
