// Kernels that read or change all gradients at once, between backward and the optimizer.
#pragma once

#include <string_view>
#include <vector>

#include "graph/core/units.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

// The gradients that a rank holds when backward is over, each once.
struct AllGradients {
  std::vector<StorageId> storages;
  std::vector<Elements> elements;  // elements of each gradient
  Bytes bytes;
};
// Returns the gradients that the optimizer works on; where it makes them itself, such as in
// another type, those that it makes them of.
[[nodiscard]] AllGradients all_gradients(const TrainingGraph& graph);

// Throws UserError where parameters are updated in backward: no moment has all gradients then.
void check_gradients_wait(const TrainingGraph& graph, std::string_view key,
                          std::string_view reason);

// Adds an operator to PartKind::kBeforeOptimizer.
OperatorId add_before_optimizer(TrainingGraph& graph, std::string_view name,
                                const std::vector<Touch>& touches, const Work& work);

}  // namespace tidemark
