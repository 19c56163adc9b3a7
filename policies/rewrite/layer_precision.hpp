// Blocks of a model that compute in a narrower type than the rest.
#pragma once

#include <vector>

#include "graph/ir/graph.hpp"
#include "graph/operators/framework.hpp"

namespace tidemark {

// Returns the type in which each block of the model computes; the rest computes as the model does.
using BlockTypes = std::vector<DType>;

// Makes blocks compute in the types given, where `computes` is the type of the whole model:
// fp16 and bf16 as inside torch.autocast, whose cache ends with the forward pass; fp8 as
// TransformerEngine's delayed scaling, with what is no linear layer in bf16. Operators of wider
// blocks get their operands converted back.
[[nodiscard]] Graph with_block_types(const Graph& graph, const BlockTypes& types, DType computes,
                                     const FrameworkRules& rules);

// The two rewrites of which with_block_types() is composed, for the blocks where `chosen` is not 0.
[[nodiscard]] Graph autocast_blocks(const Graph& graph, const std::vector<char>& chosen, DType low,
                                    const FrameworkRules& rules);
[[nodiscard]] Graph fp8_blocks(const Graph& graph, const std::vector<char>& chosen);

}  // namespace tidemark
