// Layers with weights: products, recurrences, attention and norms.
#include <array>

#include <fmt/format.h>

#include "graph/models/experts.hpp"
#include "graph/models/language.hpp"
#include "graph/models/layers/layer_groups.hpp"
#include "graph/models/layers/layer_kind.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/recurrent.hpp"

namespace tidemark {
namespace module_kinds {

using Context = LayerContext;

TensorId linear(const Context& c) {
  need_axes(c, 1);
  need_numbers(c);
  const std::int64_t features = c.parameters.size("features", kMaxWidth);
  return c.builder.linear(c.module, c.x, features, read_flag(c, "bias", true));
}

TensorId embedding(const Context& c) {
  const std::int64_t rows = c.parameters.size("rows", kMaxVocabulary);
  return c.builder.embedding(c.module, c.x, rows, c.parameters.size("width", kMaxWidth));
}

// Learned positions, added.
TensorId positions(const Context& c) {
  need_axes(c, 3, 3);
  need_numbers(c);
  ModelBuilder& b = c.builder;
  const Shape shape = b.shape(c.x);
  const std::int64_t rows = c.parameters.size("rows", shape[1], 1, kMaxSequence);
  if (rows < shape[1]) {
    c.parameters.decoder().fail(
        fmt::format("{} rows are fewer than the {} positions of its input {}", rows, shape[1],
                    to_string(shape)));
  }
  const TensorId table = b.parameter("weight", {rows, shape[2]});
  return b.add_tensors(c.x, b.add("embedding", {position_ids(b, shape[1]), table}));
}

// A learned token in front of the others.
TensorId class_token(const Context& c) {
  need_axes(c, 3, 3);
  need_numbers(c);
  ModelBuilder& b = c.builder;
  const Shape shape = b.shape(c.x);
  const TensorId token = b.parameter("weight", {1, 1, shape[2]});
  return b.cat({b.expand(token, {shape[0], 1, shape[2]}), c.x}, 1);
}

TensorId layer_norm(const Context& c) {
  need_axes(c, 1);
  need_numbers(c);
  return c.builder.layer_norm(c.module, c.x, read_flag(c, "bias", true));
}

TensorId rms_norm(const Context& c) {
  need_axes(c, 1);
  need_numbers(c);
  return c.builder.rms_norm(c.module, c.x, read_flag(c, "eager", false));
}

TensorId batch_norm(const Context& c) {
  need_axes(c, 2);
  need_numbers(c);
  return c.builder.batch_norm(c.module, c.x);
}

TensorId group_norm(const Context& c) {
  need_axes(c, 2);
  need_numbers(c);
  const std::int64_t groups = c.parameters.size("groups", kMaxWidth);
  need_groups(c, groups, c.builder.shape(c.x)[1], "channels");
  return c.builder.group_norm(c.module, c.x, groups);
}

// Images as sequences of pixels: [batch, channels, h, w] to [batch, h * w, channels] and back.
TensorId pixels_to_tokens(ModelBuilder& b, TensorId x) {
  const Shape s = b.shape(x);
  return b.transpose(b.reshape(x, {s[0], s[1], s[2] * s[3]}), 1, 2);
}

TensorId tokens_to_pixels(ModelBuilder& b, TensorId x, const Shape& image) {
  return b.reshape(b.transpose(x, 1, 2), image);
}

// Queries, keys, values and an output projection; `context` makes it cross-attention.
TensorId attention(const Context& c) {
  need_axes(c, 3, 4);
  need_numbers(c);
  ModelBuilder& b = c.builder;
  const LayerParameters& p = c.parameters;
  const Shape image = b.shape(c.x);
  const TensorId x = image.rank() == 4 ? pixels_to_tokens(b, c.x) : c.x;
  const Shape shape = b.shape(x);
  TensorId context = x;
  if (p.decoder().has("context")) {
    context = c.tap("context");
    if (b.shape(context).rank() != 3 || b.shape(context)[0] != shape[0]) {
      p.decoder().fail_at("context",
                          fmt::format("cannot attend from {} to {}: expected [{}, length, width]",
                                      to_string(shape), to_string(b.shape(context)), shape[0]));
    }
  }
  const std::int64_t heads = p.size("heads", kMaxHeads);
  const std::int64_t kv_heads = p.size("kv_heads", heads, 1, heads);
  const bool own_width = p.decoder().has("head_width");
  if (!own_width) {
    require_divides(p.decoder(), "heads", heads, "heads", shape[2],
                    fmt::format("a width of {}", shape[2]));
  }
  const std::int64_t head_width = p.size("head_width", shape[2] / heads, 1, kMaxWidth);
  require_divides(p.decoder(), "kv_heads", kv_heads, "key-value heads", heads,
                  fmt::format("{} attention heads", heads));
  const bool bias = read_flag(c, "bias", true);
  const bool causal = read_flag(c, "causal", false);
  const auto project = [&](std::string_view module, TensorId of, std::int64_t count) {
    return split_heads(b, b.linear(module, of, count * head_width, bias), count);
  };
  TensorId q = project("q", x, heads);
  TensorId k = project("k", context, kv_heads);
  const TensorId v = repeat_heads(b, project("v", context, kv_heads), heads);
  if (read_flag(c, "rotary", false)) {
    const Shape table{shape[1], head_width};
    const TensorId cos = b.buffer("cos", table, b.dtype());
    const TensorId sin = b.buffer("sin", table, b.dtype());
    q = b.rotary(q, cos, sin);
    k = b.rotary(k, cos, sin);
  }
  k = repeat_heads(b, k, heads);
  TensorId mask;
  if (causal && c.options.attention == AttentionKind::kMath) {
    mask = b.buffer("mask", {1, 1, shape[1], b.shape(context)[1]}, DType::kBool);
  }
  TensorId y =
      b.attention(q, k, v, c.options.attention, causal, read_probability(c, "dropout", 0), mask);
  y = b.linear("out", merge_heads(b, y), shape[2], bias);
  return image.rank() == 4 ? tokens_to_pixels(b, y, image) : y;
}

TensorId moe(const Context& c) {
  need_axes(c, 3, 3);
  need_numbers(c);
  const LayerParameters& p = c.parameters;
  MixtureOfExperts mixture;
  mixture.experts = p.size("experts", kMaxExperts);
  mixture.per_token =
      p.size("per_token", std::min(mixture.per_token, mixture.experts), 1, mixture.experts);
  mixture.ffn = p.size("ffn", kMaxWidth);
  mixture.activation =
      p.decoder().optional_word("activation", activation_names(), mixture.activation);
  mixture.capacity_factor = p.decoder().maybe<double>("capacity_factor", above(0));
  return mixture_of_experts(c.builder, c.module, c.x, mixture);
}

// The outputs of every step; [batch, steps, features] unless batch_first is false.
template <LayerWord Cell>
TensorId recurrent(const Context& c) {
  need_axes(c, 3, 3);
  need_numbers(c);
  RecurrentLayers layers;
  layers.hidden = c.parameters.size("hidden", kMaxWidth);
  layers.layers = c.parameters.size("layers", 1, 1, kMaxLayers);
  layers.dropout = read_probability(c, "dropout", 0);
  layers.bias = read_flag(c, "bias", true);
  layers.batch_first = read_flag(c, "batch_first", true);
  layers.bidirectional = read_flag(c, "bidirectional", false);
  if (layers.layers == 1) layers.dropout = 0;  // there is nothing between the layers
  return recurrent_layers(c.builder, Cell.text, c.module, c.x, layers);
}

constexpr std::string_view kRecurrent =
    "hidden, layers: 1, dropout: 0, bias: true, batch_first: true, bidirectional: false";

constexpr std::array kKinds = {
    LayerKind{"linear", "features", "features, bias: true", linear, true},
    LayerKind{"embedding", "", "rows, width", embedding, true},
    LayerKind{"positions", "rows", "rows: length", positions},
    LayerKind{"class_token", "", "", class_token},
    LayerKind{"attention", "heads",
              "heads, kv_heads: heads, head_width, context: tap, causal: false, rotary: false, "
              "dropout: 0, bias: true; on images every pixel is a token",
              attention},
    LayerKind{"moe", "experts", "experts, per_token: 2, ffn, activation: silu, capacity_factor",
              moe, true},
    LayerKind{"lstm", "hidden", kRecurrent, recurrent<"lstm">, true},
    LayerKind{"gru", "hidden", kRecurrent, recurrent<"gru">, true},
    LayerKind{"rnn", "hidden", kRecurrent, recurrent<"rnn">, true},
    LayerKind{"layer_norm", "", "bias: true", layer_norm, true},
    LayerKind{"rms_norm", "", "eager: false", rms_norm, true},
    LayerKind{"batch_norm", "", "", batch_norm, true},
    LayerKind{"group_norm", "groups", "groups", group_norm, true},
};

}  // namespace module_kinds

std::span<const LayerKind> module_layers() {
  return module_kinds::kKinds;
}

}  // namespace tidemark
