// Selective activation checkpointing: which kinds of operators a block's backward finds saved.
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

// `selective: {save: [...]}`: of every block all that backward reads is computed again from the
// block's input, but for the results of the kinds listed (torch.utils.checkpoint's selective
// policy, MUST_SAVE). `{recompute: [...]}`: only the kinds listed are computed again. Kinds are the
// names of forward operators as `tidemark graph` shows them: linear, bmm, softmax, dropout, ...
[[nodiscard]] const PolicyEntry& selective_entry();

// Korthikanti et al. 2022 (arXiv 2205.05198), section 5: the attention core is computed again, from
// the product of queries and keys to that with the values; what comes before and behind is saved.
[[nodiscard]] const PolicyEntry& megatron_selective_entry();

}  // namespace tidemark
