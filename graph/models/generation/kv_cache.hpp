// Key-value caches of generation: what attention keeps of earlier tokens.
#pragma once

#include <cstdint>

#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

// Sizes of a model's cache.
struct KeyValueCache {
  std::int64_t layers = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_width = 1;
  // Width of the one vector per token that multi-head latent attention keeps instead of keys and
  // values: rank and rotary part. 0: keys and values.
  std::int64_t latent_width = 0;
  DType dtype = DType::kBFloat16;

  // Returns the bytes that one token adds in one layer.
  [[nodiscard]] Bytes per_token_and_layer() const;
  // Returns the bytes of `batch` sequences of `tokens` tokens, in tensors of just this length.
  [[nodiscard]] Bytes whole(std::int64_t batch, std::int64_t tokens) const;
  // Returns the bytes of the same in blocks of `block` tokens (vLLM: 16 on CUDA).
  [[nodiscard]] Bytes paged(std::int64_t batch, std::int64_t tokens, std::int64_t block) const;
  // Returns the bytes of one layer's cache that a longer copy replaces, alive while torch.cat makes
  // the copy (DynamicCache of transformers).
  [[nodiscard]] Bytes replaced(std::int64_t batch, std::int64_t tokens) const;
};

}  // namespace tidemark
