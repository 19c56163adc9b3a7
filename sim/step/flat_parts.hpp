// Optimizers that work on matrices, on ranks that hold flat parts of them.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/training_graph.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Adds a warning where a policy leaves the optimizer no rows and columns: Muon then updates by
// AdamW, and Adafactor keeps states of full size.
void warn_of_flat_parts(const StepSpec& spec, const TrainingGraph& graph,
                        std::vector<std::string>& warnings);

}  // namespace tidemark
