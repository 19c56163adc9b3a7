// Pieces that transformer language models have in common.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/models/builder.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// torch.arange(0, sequence).unsqueeze(0): int64 [1, sequence]. The embedding saves it.
[[nodiscard]] TensorId position_ids(ModelBuilder& builder, std::int64_t sequence);

// [batch, length, heads * width] as [batch, heads, length, width]: a view.
[[nodiscard]] TensorId split_heads(ModelBuilder& builder, TensorId x, std::int64_t heads);
// The way back: transpose(1, 2).contiguous().view(batch, length, heads * width).
[[nodiscard]] TensorId merge_heads(ModelBuilder& builder, TensorId x);
// Hugging Face's repeat_kv: [batch, kv_heads, length, width] expanded to `heads` and copied by
// reshape. `x` itself when there is nothing to repeat.
[[nodiscard]] TensorId repeat_heads(ModelBuilder& builder, TensorId x, std::int64_t heads);

// gelu, gelu_tanh, new_gelu (the composed form of GPT-2's authors), relu, silu.
[[nodiscard]] std::span<const std::string_view> activation_names();
[[nodiscard]] TensorId activate(ModelBuilder& builder, std::string_view name, TensorId x,
                                bool in_place = false);

// `upcast`: Hugging Face takes the loss on logits.float(), a second copy of the logits in fp32 that
// lives beside the log-softmax. It also shifts: labels move by one token and the last position gets
// no label, which changes no size (before transformers 4.46 the logits were sliced and copied
// instead, one more fp32 copy).
void add_language_loss(ModelBuilder& builder, TensorId logits, LossKind loss, bool upcast);

}  // namespace tidemark
