// Cross-entropy in place on fp32 logits, as Megatron-LM computes it with one rank or several
// (core/tensor_parallel/cross_entropy.py).
#pragma once

#include <functional>
#include <optional>

#include "graph/ir/graph.hpp"

namespace tidemark {

// Adds the mean cross-entropy of fp32 `logits` [samples, classes], which are overwritten, and
// returns it. `over_ranks` brings a result per sample together over the ranks that share the
// classes.
[[nodiscard]] TensorId add_vocabulary_loss(Graph& graph, TensorId logits, TensorId targets,
                                           LayerId layer,
                                           const std::function<TensorId(TensorId)>& over_ranks);

// nll_loss(log_softmax(scores)) of scores [samples, classes] that nothing else reads.
struct ScoresAndLoss {
  NodeId scores;  // log_softmax
  NodeId loss;
  std::int64_t classes = 0;
};
// Returns how the model ends; none where it ends otherwise.
[[nodiscard]] std::optional<ScoresAndLoss> find_scores_and_loss(const Graph& graph);

// Returns the graph with the loss of one rank in place of the one found.
[[nodiscard]] Graph with_vocabulary_loss(const Graph& graph, const ScoresAndLoss& found);

}  // namespace tidemark
