#include "graph/models/language.hpp"

#include <array>
#include <string>

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

std::span<const std::string_view> activation_names() {
  static constexpr std::array<std::string_view, 5> kNames = {"gelu", "gelu_tanh", "new_gelu",
                                                             "relu", "silu"};
  return kNames;
}

TensorId activate(ModelBuilder& builder, std::string_view name, TensorId x, bool in_place) {
  return builder.activation(name == "new_gelu" ? "gelu_new" : name, x, in_place);
}

void add_language_loss(ModelBuilder& builder, TensorId logits, LossKind loss, bool upcast) {
  if (loss == LossKind::kNone) return;
  if (upcast && builder.tensor(logits).dtype != DType::kFloat32) {
    logits = builder.cast(logits, DType::kFloat32);
  }
  if (loss == LossKind::kMse) return builder.mse_loss(logits);
  builder.cross_entropy_loss(logits);
}

}  // namespace tidemark
