// Selective recomputation on cost graphs: which operators' results are kept, by name. Nodes are
// named as `tidemark graph --cost-graph` writes them, "LAYER: OPERATOR"; a name without a layer is
// the operator's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policies/solver/problem.hpp"

namespace tidemark {

// "softmax" of "h.0.attn: softmax".
[[nodiscard]] std::string_view operator_of(std::string_view node_name);

// Keeps of the forward nodes of repeated blocks (of all, where the graph has none) the results of
// the operators listed (`saves`), or all but those (torch.utils.checkpoint,
// create_selective_checkpoint_contexts). The last result of a block stays. Throws UserError naming
// an operator that no forward node has.
[[nodiscard]] Schedule selective_schedule(const RematProblem& problem,
                                          const std::vector<std::string>& operators, bool saves);

// Computes the core of attention again: in layers with a node "softmax" or "attention" all from the
// first product (bmm or attention) to the last. Korthikanti et al. 2022 (arXiv 2205.05198),
// section 5. Throws UserError where there is none.
[[nodiscard]] Schedule attention_schedule(const RematProblem& problem);

}  // namespace tidemark
