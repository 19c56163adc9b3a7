#include "graph/models/torch_modules.hpp"

#include <array>
#include <vector>

#include "graph/models/language.hpp"

namespace tidemark {

namespace torch_modules_detail {
namespace {

// q / sqrt(width), bmm with k transposed, softmax, dropout, bmm with v; all [batch * heads, length,
// width], the result as [batch, heads, length, width].
TensorId math_attention(ModelBuilder& b, const std::array<TensorId, 3>& qkv, const Shape& result,
                        double dropout) {
  const TensorId scores = b.add("bmm", {b.scale(qkv[0]), b.transpose(qkv[1], 1, 2)});
  const TensorId weights = b.dropout(b.softmax(scores), dropout);
  return b.view(b.add("bmm", {weights, qkv[2]}), result);
}

}  // namespace
}  // namespace torch_modules_detail

TensorId torch_multihead_attention(ModelBuilder& builder, std::string_view module, TensorId x,
                                   const TorchAttention& attention) {
  ModelBuilder& b = builder;
  auto scope = b.scope(module);
  const Shape shape = b.shape(x);
  const std::int64_t batch = shape[0];
  const std::int64_t length = shape[1];
  const std::int64_t width = shape[2];
  const std::int64_t heads = attention.heads;
  x = b.transpose(x, 1, 0);
  const TensorId weight = b.parameter("in_proj_weight", {3 * width, width});
  const TensorId bias = b.parameter("in_proj_bias", {3 * width});
  const std::vector<TensorId> packed = b.split(b.linear_with(x, weight, bias), width, 2);
  const Shape split{batch, heads, length, width / heads};
  std::array<TensorId, 3> qkv;
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    const TensorId part = b.contiguous(packed[i]);
    qkv[i] = b.transpose(b.view(part, {length, batch * heads, width / heads}), 0, 1);
  }
  scope.local(qkv[0]);  // F.multi_head_attention_forward's q, beside the scaled one
  TensorId y;
  if (attention.kind == AttentionKind::kMath) {
    y = torch_modules_detail::math_attention(b, qkv, split, attention.dropout);
  } else {
    y = b.attention(b.view(qkv[0], split), b.view(qkv[1], split), b.view(qkv[2], split),
                    AttentionKind::kFlash, false, attention.dropout, {});
  }
  y = b.add("permute", {y}, {{"axes", std::vector<std::int64_t>{2, 0, 1, 3}}});
  y = b.view(b.contiguous(y), {length * batch, width});
  y = b.linear("out_proj", y, width);
  return b.transpose(b.view(y, {length, batch, width}), 1, 0);
}

// norm_first: x + sa(norm1(x)), x + ff(norm2(x)); else norm1(x + sa(x)), norm2(x + ff(x)).
TensorId torch_encoder_layer(ModelBuilder& builder, TensorId x, const TorchEncoderLayer& layer) {
  ModelBuilder& b = builder;
  const std::int64_t width = b.shape(x)[-1];
  const auto attend = [&](TensorId y) {
    y = torch_multihead_attention(
        b, "self_attn", y, {.heads = layer.heads, .dropout = layer.dropout, .kind = layer.kind});
    return b.dropout(y, layer.dropout);
  };
  const auto feed_forward = [&](TensorId y) {
    y = activate(b, layer.activation, b.linear("linear1", y, layer.ffn));
    y = b.linear("linear2", b.dropout(y, layer.dropout), width);
    return b.dropout(y, layer.dropout);
  };
  if (layer.norm_first) {
    x = b.add_tensors(x, attend(b.layer_norm("norm1", x)));
    return b.add_tensors(x, feed_forward(b.layer_norm("norm2", x)));
  }
  x = b.layer_norm("norm1", b.add_tensors(x, attend(x)));
  return b.layer_norm("norm2", b.add_tensors(x, feed_forward(x)));
}

}  // namespace tidemark
