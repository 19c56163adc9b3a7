// Updates in backward: each gradient is consumed by its optimizer as soon as it is complete.
//
//   backward    [ node n ][ update n ][ node n-1 ][ update n-1 ] ...
//   gradient n        |=========|
#pragma once

#include <vector>

#include "graph/ir/training_graph.hpp"

namespace tidemark {

// The operators that update one tensor.
struct TensorUpdate {
  const UpdatedTensor* tensor = nullptr;
  std::vector<OperatorId> first;  // operators of step 0 only, before `step`: they create the state
  std::vector<OperatorId> step;
};

// Moves updates behind the operators that complete their gradients, which are freed when the hook
// that runs an update returns. Throws
// InternalError for a gradient that backward does not complete.
void update_in_backward(TrainingGraph& graph, std::vector<TensorUpdate> updates);

}  // namespace tidemark
