// Finds the head of a language model and the cross-entropy that is taken of its logits.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/ir/graph.hpp"

namespace tidemark {

// nll_loss(log_softmax(view or cast(linear(rows, weight))))
struct HeadAndLoss {
  NodeId head;                    // the product, of a weight or of its codes
  std::vector<NodeId> from_rows;  // what makes logits of rows: the head, and its adapter's nodes
  std::vector<NodeId> between;    // views, casts and log_softmax, from the head on
  NodeId loss;
  DType loss_dtype = DType::kFloat32;  // the type of the log-probabilities
};

// A head is a product of a weight alone, or may have codes for it and an adapter beside it.
enum class HeadForm : std::uint8_t { kPlain, kAdapted };

// Throws UserError naming `policy` where the model does not end so, or where something else reads
// the logits.
[[nodiscard]] HeadAndLoss find_head_and_loss(const Graph& graph, std::string_view policy,
                                             HeadForm form);

}  // namespace tidemark
