// Pieces that transformer language models have in common.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/models/builder.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// Returns torch.arange(0, sequence).unsqueeze(0): int64 [1, sequence]. The embedding saves it.
[[nodiscard]] TensorId position_ids(ModelBuilder& builder, std::int64_t sequence);

// Views [batch, length, heads * width] as [batch, heads, length, width].
[[nodiscard]] TensorId split_heads(ModelBuilder& builder, TensorId x, std::int64_t heads);
// Reverses split_heads: transpose(1, 2).contiguous().view(batch, length, heads * width).
[[nodiscard]] TensorId merge_heads(ModelBuilder& builder, TensorId x);
// Repeats heads as Hugging Face's repeat_kv: [batch, kv_heads, length, width] expanded to `heads`
// and copied by reshape. `x` itself when there is nothing to repeat.
[[nodiscard]] TensorId repeat_heads(ModelBuilder& builder, TensorId x, std::int64_t heads);

// Attention as Hugging Face's modules call it, on [batch, heads, length, width]. Eager:
//   softmax(matmul(q, k^T) * scaling + mask) dropout, matmul with v
// softmax in fp32 where the module says so, and the mask only where it has one. Flash is
// scaled_dot_product_attention.
struct HfAttention {
  AttentionKind kind = AttentionKind::kFlash;
  bool causal = false;
  double dropout = 0;
  TensorId mask = {};  // added to the scores by eager attention
  bool softmax_in_fp32 = true;
};
[[nodiscard]] TensorId hf_attention(ModelBuilder& builder, TensorId q, TensorId k, TensorId v,
                                    const HfAttention& how);

// Names of the activations: gelu, gelu_tanh, new_gelu (the composed form of GPT-2's authors),
// gelu_fast and quick_gelu (composed as well), relu, silu, tanh.
[[nodiscard]] std::span<const std::string_view> activation_names();
[[nodiscard]] TensorId activate(ModelBuilder& builder, std::string_view name, TensorId x,
                                bool in_place = false);

// Adds the loss of a language model. `upcast`: Hugging Face takes the loss on logits.float(), a
// second copy of the logits in fp32 that lives beside the log-softmax. It also shifts: labels move
// by one token and the last position gets no label, which changes no size (before transformers 4.46
// the logits were sliced and copied instead, one more fp32 copy).
void add_language_loss(ModelBuilder& builder, TensorId logits, LossKind loss, bool upcast,
                       bool narrow = false);

}  // namespace tidemark
