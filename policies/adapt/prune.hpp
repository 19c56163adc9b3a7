// Pruning as its frameworks do it: masks beside dense weights, or smaller layers.
#pragma once

#include "graph/ir/graph.hpp"
#include "policies/adapt/name_patterns.hpp"

namespace tidemark {

// torch.nn.utils.prune: each weight gets a mask of its type as a buffer, and every forward makes
// weight = weight_orig * mask, which the module keeps.
[[nodiscard]] Graph mask_weights(const Graph& graph, const NamePatterns& patterns);

// Removes the share `amount` of the output features of every matching layer whose features go to
// other such layers only, through functions of single elements and batch norms, and the inputs of
// those that read them. Layers whose features are added to a residual or form heads stay whole.
// Throws UserError where there are no others.
[[nodiscard]] Graph remove_features(const Graph& graph, const NamePatterns& patterns,
                                    double amount);

// 2:4 storage: a 16-bit weight takes 9/16 of its bytes, values and two bits of position each.
// Throws UserError for weights whose shapes the kernels do not take (rows % 32, columns % 64).
[[nodiscard]] Graph store_two_of_four(const Graph& graph, const NamePatterns& patterns);

}  // namespace tidemark
