// Composite modules of torch.nn, as their Python code calls operators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "graph/models/builder.hpp"

namespace tidemark {

struct TorchAttention {
  std::int64_t heads = 8;
  double dropout = 0;
  AttentionKind kind = AttentionKind::kFlash;
};

// Adds torch.nn.MultiheadAttention(batch_first=True, need_weights=False) of x with itself, where x
// is [batch, length, width]: works on [length, batch, width], one packed projection whose thirds
// are copied to be contiguous.
[[nodiscard]] TensorId torch_multihead_attention(ModelBuilder& builder, std::string_view module,
                                                 TensorId x, const TorchAttention& attention);

struct TorchEncoderLayer {
  std::int64_t heads = 8;
  std::int64_t ffn = 2048;
  double dropout = 0.1;
  std::string activation = "relu";
  bool norm_first = false;
  AttentionKind kind = AttentionKind::kFlash;
};

// Adds torch.nn.TransformerEncoderLayer(batch_first=True) in training mode.
[[nodiscard]] TensorId torch_encoder_layer(ModelBuilder& builder, TensorId x,
                                           const TorchEncoderLayer& layer);

}  // namespace tidemark
