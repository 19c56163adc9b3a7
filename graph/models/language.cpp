#include "graph/models/language.hpp"

#include <array>
#include <string>

#include "graph/models/losses.hpp"

namespace tidemark {

TensorId position_ids(ModelBuilder& builder, std::int64_t sequence) {
  return builder.view(builder.add("arange", {}, {{"length", sequence}}), {1, sequence});
}

TensorId split_heads(ModelBuilder& builder, TensorId x, std::int64_t heads) {
  const Shape shape = builder.shape(x);
  return builder.transpose(builder.view(x, {shape[0], shape[1], heads, shape[2] / heads}), 1, 2);
}

TensorId merge_heads(ModelBuilder& builder, TensorId x) {
  const Shape shape = builder.shape(x);
  x = builder.contiguous(builder.transpose(x, 1, 2));
  return builder.view(x, {shape[0], shape[2], shape[1] * shape[3]});
}

TensorId repeat_heads(ModelBuilder& builder, TensorId x, std::int64_t heads) {
  const Shape shape = builder.shape(x);  // [batch, kv_heads, length, width]
  const std::int64_t repeats = heads / shape[1];
  if (repeats == 1) return x;
  x = builder.view(x, {shape[0], shape[1], 1, shape[2], shape[3]});
  x = builder.expand(x, {shape[0], shape[1], repeats, shape[2], shape[3]});
  return builder.reshape(x, {shape[0], heads, shape[2], shape[3]});
}

TensorId hf_attention(ModelBuilder& builder, TensorId q, TensorId k, TensorId v,
                      const HfAttention& how) {
  ModelBuilder& b = builder;
  if (how.kind == AttentionKind::kFlash) {
    return b.attention(q, k, v, AttentionKind::kFlash, how.causal, how.dropout, {});
  }
  TensorId scores = b.scale(b.matmul(q, b.transpose(k, 2, 3)));
  if (how.mask.valid()) scores = b.add_tensors(scores, how.mask);
  if (how.softmax_in_fp32) {
    const DType narrow = b.tensor(scores).dtype;
    scores = b.add("softmax", {scores}, {{"axis", std::int64_t{-1}}, {"dtype", "fp32"}});
    if (narrow != DType::kFloat32) scores = b.cast_back(scores, narrow);
  } else {
    scores = b.softmax(scores);
  }
  return b.matmul(b.dropout(scores, how.dropout), v);
}

std::span<const std::string_view> activation_names() {
  static constexpr std::array<std::string_view, 8> kNames = {
      "gelu", "gelu_tanh", "new_gelu", "gelu_fast", "quick_gelu", "relu", "silu", "tanh"};
  return kNames;
}

namespace language_detail {
namespace {

// Hugging Face's FastGELUActivation:
//   0.5 * x * (1.0 + tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))
TensorId gelu_fast(ModelBuilder& b, TensorId x) {
  const TensorId half = b.scale(x);
  const TensorId cubic = b.add("add_scalar", {b.multiply(b.scale(x), x)});
  const TensorId inner = b.multiply(b.scale(x), cubic);
  return b.multiply(half, b.add("add_scalar", {b.activation("tanh", inner)}));
}

}  // namespace
}  // namespace language_detail

TensorId activate(ModelBuilder& builder, std::string_view name, TensorId x, bool in_place) {
  if (name == "gelu_fast") return language_detail::gelu_fast(builder, x);
  if (name == "quick_gelu") {  // x * sigmoid(1.702 * x)
    return builder.multiply(x, builder.activation("sigmoid", builder.scale(x)));
  }
  return builder.activation(name == "new_gelu" ? "gelu_new" : name, x, in_place);
}

void add_language_loss(ModelBuilder& builder, TensorId logits, LossKind loss, bool upcast,
                       bool narrow) {
  if (loss == LossKind::kNone) return;
  if (upcast && builder.tensor(logits).dtype != DType::kFloat32) {
    logits = builder.cast(logits, DType::kFloat32);
  }
  add_loss(builder, logits, loss, narrow);
}

}  // namespace tidemark
