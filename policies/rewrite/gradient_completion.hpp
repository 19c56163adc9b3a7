// Finds when backward has completed a gradient: a framework's hook on the gradient runs then.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/ir/training_graph.hpp"

namespace tidemark {

// Returns, by gradient, the index in the part behind which it is complete: AccumulateGrad, and the
// hooks behind it, run when the backward node that completes the gradient has returned. Throws
// InternalError for a gradient that the part does not make.
[[nodiscard]] std::vector<std::size_t> gradient_completions(
    const TrainingGraph& graph, const std::vector<OperatorId>& part,
    const std::vector<StorageId>& gradients);

}  // namespace tidemark
