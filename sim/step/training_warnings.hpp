// Warnings about steps that train otherwise than their scenario may mean.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/ir/graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/program/step_program.hpp"
#include "sim/step/step_spec.hpp"
#include "sim/step/trained_model.hpp"

namespace tidemark {

// Whether the step trains nothing and the policy at this place of the list does nothing in it.
[[nodiscard]] bool is_idle(const StepSpec& spec, std::size_t policy);

// Fills in what the warnings of a model's points follow from. `graph` is the model before it is
// differentiated. Models are shared by points of several devices and residency policies, so that
// nothing of these is looked at.
void warn_of_training(const StepSpec& spec, const Graph& graph, const TrainingGraph& training,
                      TrainedModel& model);

// Returns a sentence for each setting with which a point says less than its figures suggest, or
// PyTorch would train less: reentrant checkpointing of blocks whose inputs have no gradient,
// parameters that the loss does not depend on, devices of which little is known. Those of the model
// are among them.
[[nodiscard]] std::vector<std::string> warnings_of_point(const StepSpec& spec,
                                                         const TrainedModel& model);

// Returns a sentence where updates within backward certainly leave the peak of a run as it is: with
// the gradients that they have used up, and the temporaries of one optimizer for all, no moment of
// the last step would hold more than `peak`, the most live bytes. Empty otherwise.
[[nodiscard]] std::string remark_on_updates(const TrainingGraph& training,
                                            const StepProgram& program, Bytes peak);

}  // namespace tidemark
