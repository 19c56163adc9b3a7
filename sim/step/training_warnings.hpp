// Warnings about steps that train otherwise than their scenario may mean.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/analysis/program_order.hpp"
#include "graph/ir/graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/engine/run_result.hpp"
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

// Returns a sentence where updates within backward certainly leave the peak of a run as it is. No
// update has run in the last step before it, so that it is there without the policy, too. And no
// moment of that step would hold more with the gradients that updates have used up, and with the
// temporaries of one optimizer for all. Empty otherwise.
[[nodiscard]] std::string remark_on_updates(const TrainingGraph& training,
                                            const StepProgram& program, const ProgramOrder& order,
                                            const Peak& peak);

}  // namespace tidemark
