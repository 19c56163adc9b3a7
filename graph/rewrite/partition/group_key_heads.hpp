// Attention in which several query heads use one key-value head, without copies of it.
#pragma once

#include "graph/ir/graph.hpp"

namespace tidemark {

// Fused attention that reads repeated key-value heads reads the heads themselves afterwards, as the
// kernels of TransformerEngine do; what nobody else reads is not repeated any more.
[[nodiscard]] Graph group_key_heads(const Graph& graph);

}  // namespace tidemark
