// Weights that a linear layer or a convolution multiplies with.
#pragma once

#include <string_view>
#include <vector>

#include "graph/ir/graph.hpp"
#include "policies/adapt/name_patterns.hpp"

namespace tidemark {

// The operand of these nodes that is a weight.
inline constexpr std::size_t kProductWeight = 1;

// Whether the node multiplies its input with a weight: linear layers and convolutions.
[[nodiscard]] bool multiplies_weight(const Node& node);

// Returns the parameters that match and are such a weight, by tensor of the graph. Throws UserError
// where there are none; `policy` is for the message.
[[nodiscard]] IdVector<TensorId, ParameterId> product_weights(const Graph& graph,
                                                              const NamePatterns& patterns,
                                                              std::string_view policy);

}  // namespace tidemark
