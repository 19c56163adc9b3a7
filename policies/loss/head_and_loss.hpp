// Finds the head of a language model and the cross-entropy that is taken of its logits.
#pragma once

#include <string_view>
#include <vector>

#include "graph/ir/graph.hpp"

namespace tidemark {

// nll_loss(log_softmax(view or cast(linear(rows, weight))))
struct HeadAndLoss {
  NodeId head;
  std::vector<NodeId> between;  // views, casts and log_softmax, from the head on
  NodeId loss;
  DType loss_dtype = DType::kFloat32;  // the type of the log-probabilities
};

// Throws UserError naming `policy` where the model does not end so, or where something else reads
// the logits.
[[nodiscard]] HeadAndLoss find_head_and_loss(const Graph& graph, std::string_view policy);

}  // namespace tidemark
