// Warnings about steps that train otherwise than their scenario may mean.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/ir/graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Whether the step trains nothing and the policy at this place of the list does nothing in it.
[[nodiscard]] bool is_idle(const StepSpec& spec, std::size_t policy);

// Returns a sentence for each setting with which PyTorch would train less than the figures suggest:
// reentrant checkpointing of blocks whose inputs have no gradient, and parameters that the loss
// does not depend on. `graph` is the model before it is differentiated.
[[nodiscard]] std::vector<std::string> training_warnings(const StepSpec& spec, const Graph& graph,
                                                         const TrainingGraph& training);

}  // namespace tidemark
