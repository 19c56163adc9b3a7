// Operators of generation: they make, extend and read key-value caches, and choose tokens.
#pragma once

#include "graph/operators/family.hpp"

namespace tidemark {

// The operator that ends a pass: it picks the next token of each sequence from its logits, and the
// host waits for it, since it decides whether a sequence has ended. From logits
// [batch, 1, vocabulary] to int64 [batch, 1].
[[nodiscard]] const OperatorFamily& next_token_family();
// torch.cat of an earlier cache, if there is one, with new keys or values [batch, heads, length,
// width] along the length.
[[nodiscard]] const OperatorFamily& append_cache_family();
// Zeros of attribute `shape` and `dtype`: room for all tokens.
[[nodiscard]] const OperatorFamily& new_cache_family();
// Writes new keys or values into a cache with room for them, in place.
[[nodiscard]] const OperatorFamily& write_cache_family();
// Attention of queries [batch, heads, length, width] over the first `tokens` tokens of caches
// [batch * blocks, tokens per block, key heads, width] for keys and for values.
[[nodiscard]] const OperatorFamily& paged_attention_family();

}  // namespace tidemark
