#include "graph/models/layers.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/models/experts.hpp"
#include "graph/models/language.hpp"
#include "graph/models/model_limits.hpp"
#include "graph/models/recurrent.hpp"

namespace tidemark {

std::int64_t LayerParameters::size(std::string_view key, std::int64_t highest) const {
  if (!decoder_.has(key)) {
    decoder_.fail_at(key, "required key is missing; expected an integer or a size");
  }
  return size(key, 1, 1, highest);
}

std::int64_t LayerParameters::size(std::string_view key, std::int64_t fallback, std::int64_t lowest,
                                   std::int64_t highest) const {
  if (!decoder_.has(key)) return fallback;
  return evaluate_size(*decoder_.value().find(key), sizes_,
                       fmt::format("{}.{}", decoder_.path(), key), lowest, highest);
}

std::vector<std::int64_t> LayerParameters::sizes(std::string_view key, std::int64_t lowest,
                                                 std::int64_t highest) const {
  std::vector<std::int64_t> result;
  if (!decoder_.has(key)) return result;
  const Value& list = *decoder_.value().find(key);
  const std::string path = fmt::format("{}.{}", decoder_.path(), key);
  if (!list.is_sequence()) decoder_.fail_at(key, "expected a list of sizes");
  if (list.items.size() > static_cast<std::size_t>(kMaxRank)) {
    decoder_.fail_at(key, fmt::format("tensors have at most {} axes", kMaxRank));
  }
  for (const Value& item : list.items) {
    result.push_back(
        evaluate_size(item, sizes_, fmt::format("{}[{}]", path, result.size()), lowest, highest));
  }
  return result;
}

namespace {

using Context = LayerContext;

template <std::size_t Length>
struct Word {
  char text[Length]{};
  // NOLINTNEXTLINE: a string literal as a template argument
  constexpr Word(const char (&literal)[Length]) { std::copy_n(literal, Length, text); }
};

constexpr std::int64_t kMaxKernel = 1 << 12;
constexpr std::int64_t kAnyExtent = std::int64_t{1} << 40;

void need_axes(const Context& c, int lowest, int highest = kMaxRank) {
  const Shape& shape = c.builder.shape(c.x);
  if (shape.rank() >= lowest && shape.rank() <= highest) return;
  const std::string wanted = lowest == highest     ? fmt::format("{}", lowest)
                             : highest == kMaxRank ? fmt::format("at least {}", lowest)
                                                   : fmt::format("{} to {}", lowest, highest);
  c.parameters.decoder().fail(fmt::format("needs an input with {} axes, its input has the shape {}",
                                          wanted, to_string(shape)));
}

void need_numbers(const Context& c) {
  const Tensor& x = c.builder.tensor(c.x);
  if (is_floating(x.dtype)) return;
  c.parameters.decoder().fail(fmt::format("needs numbers, its input {} holds {}: embed it first",
                                          to_string(x.shape), name_of(x.dtype)));
}

bool flag(const Context& c, std::string_view key, bool fallback) {
  return c.parameters.decoder().optional<bool>(key, fallback);
}

double probability(const Context& c, std::string_view key, double fallback) {
  return c.options.dropout.value_or(
      c.parameters.decoder().optional<double>(key, fallback, between(0, 1)));
}

int axis(const Context& c, std::string_view key, std::int64_t fallback) {
  const int rank = c.builder.shape(c.x).rank();
  const std::int64_t chosen = c.parameters.size(key, fallback, -rank, rank - 1);
  return static_cast<int>(chosen < 0 ? chosen + rank : chosen);
}

TensorId linear(const Context& c) {
  need_axes(c, 1);
  need_numbers(c);
  const std::int64_t features = c.parameters.size("features", kMaxWidth);
  return c.builder.linear(c.module, c.x, features, flag(c, "bias", true));
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
  return c.builder.layer_norm(c.module, c.x, flag(c, "bias", true));
}

TensorId rms_norm(const Context& c) {
  need_axes(c, 1);
  need_numbers(c);
  return c.builder.rms_norm(c.module, c.x, flag(c, "eager", false));
}

TensorId batch_norm(const Context& c) {
  need_axes(c, 2);
  need_numbers(c);
  return c.builder.batch_norm(c.module, c.x);
}

void need_groups(const Context& c, std::int64_t groups, std::int64_t channels,
                 std::string_view which) {
  require_divides(c.parameters.decoder(), "groups", groups, "groups", channels,
                  fmt::format("{} {}", channels, which));
}

TensorId group_norm(const Context& c) {
  need_axes(c, 2);
  need_numbers(c);
  const std::int64_t groups = c.parameters.size("groups", kMaxWidth);
  need_groups(c, groups, c.builder.shape(c.x)[1], "channels");
  return c.builder.group_norm(c.module, c.x, groups);
}

Conv2dOptions convolution_options(const Context& c, std::int64_t channels) {
  const LayerParameters& p = c.parameters;
  const std::int64_t groups = p.size("groups", 1, 1, kMaxWidth);
  need_groups(c, groups, c.builder.shape(c.x)[1], "input channels");
  need_groups(c, groups, channels, "output channels");
  return {.kernel = p.size("kernel", 1, 1, kMaxKernel),
          .stride = p.size("stride", 1, 1, kMaxKernel),
          .padding = p.size("padding", 0, 0, kMaxKernel),
          .dilation = p.size("dilation", 1, 1, kMaxKernel),
          .groups = groups,
          .bias = flag(c, "bias", true)};
}

// A layer of [batch, channels, spatial...] whose kernel is equally long along every spatial axis;
// the number of those stands in the family's name. The weight is [out, in / groups, kernel...],
// transposed [in, out / groups, kernel...].
template <Word Family>
TensorId convolution(const Context& c) {
  constexpr std::string_view kFamily = Family.text;
  constexpr bool kTransposed = kFamily.starts_with("conv_transpose");
  constexpr int kSpatialAxes = kFamily[kFamily.size() - 2] - '0';
  need_axes(c, kSpatialAxes + 2, kSpatialAxes + 2);
  need_numbers(c);
  const std::int64_t channels = c.parameters.size("channels", kMaxWidth);
  const Conv2dOptions options = convolution_options(c, channels);
  const std::int64_t inputs = c.builder.shape(c.x)[1];
  Shape weight = kTransposed ? Shape{inputs, channels / options.groups}
                             : Shape{channels, inputs / options.groups};
  for (int axis = 0; axis < kSpatialAxes; ++axis)
    weight.push_back(options.kernel);
  const TensorId filters = c.builder.parameter("weight", weight);
  const TensorId bias = options.bias ? c.builder.parameter("bias", {channels}) : TensorId();
  return c.builder.add(kFamily, {c.x, filters, bias},
                       {{"stride", options.stride},
                        {"padding", options.padding},
                        {"dilation", options.dilation},
                        {"groups", options.groups}});
}

template <auto Pool>
TensorId pool2d(const Context& c) {
  need_axes(c, 4, 4);
  need_numbers(c);
  const LayerParameters& p = c.parameters;
  const std::int64_t kernel = p.size("kernel", kMaxKernel);
  const std::int64_t stride = p.size("stride", kernel, 1, kMaxKernel);
  return (c.builder.*Pool)(c.x, kernel, stride, p.size("padding", 0, 0, kMaxKernel));
}

TensorId global_avg_pool2d(const Context& c) {
  need_axes(c, 4, 4);
  need_numbers(c);
  return c.builder.global_avg_pool2d(c.x);
}

// Nearest neighbour: every pixel `factor` times in each direction.
TensorId upsample(const Context& c) {
  need_axes(c, 4, 4);
  need_numbers(c);
  ModelBuilder& b = c.builder;
  const std::int64_t factor = c.parameters.size("factor", kMaxKernel);
  const Shape s = b.shape(c.x);
  const TensorId apart = b.reshape(c.x, {s[0], s[1], s[2], 1, s[3], 1});
  const TensorId repeated = b.expand(apart, {s[0], s[1], s[2], factor, s[3], factor});
  return b.reshape(repeated, {s[0], s[1], s[2] * factor, s[3] * factor});
}

TensorId dropout(const Context& c) {
  need_numbers(c);
  return c.builder.dropout(c.x, probability(c, "p", 0.5), flag(c, "in_place", false));
}

TensorId softmax(const Context& c) {
  need_axes(c, 1);
  need_numbers(c);
  return c.builder.add("softmax", {c.x}, {{"axis", std::int64_t{axis(c, "axis", -1)}}});
}

TensorId scale(const Context& c) {
  need_numbers(c);
  return c.builder.scale(c.x);
}

TensorId flatten(const Context& c) {
  need_axes(c, 2);
  return c.builder.flatten(c.x, axis(c, "from_axis", 1));
}

TensorId reshape(const Context& c) {
  Shape shape;
  for (std::int64_t extent : c.parameters.sizes("shape", -1, kAnyExtent))
    shape.push_back(extent);
  return c.builder.reshape(c.x, shape);
}

TensorId transpose(const Context& c) {
  const std::vector<std::int64_t> axes = c.parameters.sizes("axes", -kMaxRank, kMaxRank - 1);
  if (axes.size() != 2) c.parameters.decoder().fail("expected two axes to swap");
  const int rank = c.builder.shape(c.x).rank();
  for (std::int64_t axis : axes) {
    if (axis < -rank || axis >= rank) need_axes(c, static_cast<int>(axis < 0 ? -axis : axis + 1));
  }
  const auto counted = [&](std::int64_t axis) {
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  };
  return c.builder.transpose(c.x, counted(axes[0]), counted(axes[1]));
}

TensorId permute(const Context& c) {
  return c.builder.add("permute", {c.x}, {{"axes", c.parameters.sizes("axes", 0, kMaxRank - 1)}});
}

// One position of an axis, which disappears: x[:, index].
TensorId select(const Context& c) {
  need_axes(c, 2);
  const int chosen = axis(c, "axis", 1);
  const std::int64_t extent = c.builder.shape(c.x)[chosen];
  return c.builder.add("narrow", {c.x},
                       {{"axis", std::int64_t{chosen}},
                        {"start", c.parameters.size("index", 0, 0, extent - 1)},
                        {"length", std::int64_t{1}},
                        {"drop_axis", std::int64_t{1}}});
}

TensorId reduce(const Context& c, std::string_view family) {
  need_axes(c, 1);
  need_numbers(c);
  Attributes attributes{{"keepdim", std::int64_t{flag(c, "keepdim", false) ? 1 : 0}}};
  const std::vector<std::int64_t> axes = c.parameters.sizes("axes", -kMaxRank, kMaxRank - 1);
  if (!axes.empty()) attributes.set("axes", axes);
  return c.builder.add(family, {c.x}, attributes);
}

TensorId mean(const Context& c) {
  return reduce(c, "mean");
}

TensorId sum(const Context& c) {
  return reduce(c, "sum");
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
  const bool bias = flag(c, "bias", true);
  const bool causal = flag(c, "causal", false);
  const auto project = [&](std::string_view module, TensorId of, std::int64_t count) {
    return split_heads(b, b.linear(module, of, count * head_width, bias), count);
  };
  TensorId q = project("q", x, heads);
  TensorId k = project("k", context, kv_heads);
  const TensorId v = repeat_heads(b, project("v", context, kv_heads), heads);
  if (flag(c, "rotary", false)) {
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
      b.attention(q, k, v, c.options.attention, causal, probability(c, "dropout", 0), mask);
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
template <Word Cell>
TensorId recurrent(const Context& c) {
  need_axes(c, 3, 3);
  need_numbers(c);
  RecurrentLayers layers;
  layers.hidden = c.parameters.size("hidden", kMaxWidth);
  layers.layers = c.parameters.size("layers", 1, 1, kMaxLayers);
  layers.dropout = probability(c, "dropout", 0);
  layers.bias = flag(c, "bias", true);
  layers.batch_first = flag(c, "batch_first", true);
  layers.bidirectional = flag(c, "bidirectional", false);
  if (layers.layers == 1) layers.dropout = 0;  // there is nothing between the layers
  return recurrent_layers(c.builder, Cell.text, c.module, c.x, layers);
}

template <Word Name>
TensorId activation(const Context& c) {
  need_numbers(c);
  return activate(c.builder, Name.text, c.x, flag(c, "in_place", false));
}

template <Word Name>
constexpr LayerKind activation_kind() {
  return {Name.text, "", "in_place: false", activation<Name>};
}

constexpr std::string_view kConvolution =
    "channels, kernel: 1, stride: 1, padding: 0, dilation: 1, groups: 1, bias: true";
constexpr std::string_view kRecurrent =
    "hidden, layers: 1, dropout: 0, bias: true, batch_first: true, bidirectional: false";
constexpr std::string_view kPooling = "kernel, stride: kernel, padding: 0";

template <Word Family>
constexpr LayerKind convolution_kind() {
  return {Family.text, "channels", kConvolution, convolution<Family>};
}

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
    convolution_kind<"conv2d">(),
    convolution_kind<"conv1d">(),
    convolution_kind<"conv3d">(),
    convolution_kind<"conv_transpose2d">(),
    convolution_kind<"conv_transpose1d">(),
    convolution_kind<"conv_transpose3d">(),
    LayerKind{"max_pool2d", "kernel", kPooling, pool2d<&ModelBuilder::max_pool2d>},
    LayerKind{"avg_pool2d", "kernel", kPooling, pool2d<&ModelBuilder::avg_pool2d>},
    LayerKind{"global_avg_pool2d", "", "", global_avg_pool2d},
    LayerKind{"upsample", "factor", "factor", upsample},
    LayerKind{"dropout", "p", "p: 0.5, in_place: false", dropout},
    LayerKind{"softmax", "axis", "axis: -1", softmax},
    LayerKind{"scale", "", "", scale},
    LayerKind{"flatten", "from_axis", "from_axis: 1", flatten},
    LayerKind{"reshape", "shape", "shape; one extent may be -1", reshape},
    LayerKind{"transpose", "axes", "axes: [a, b]", transpose},
    LayerKind{"permute", "axes", "axes", permute},
    LayerKind{"select", "index", "index: 0, axis: 1", select},
    LayerKind{"mean", "axes", "axes: all, keepdim: false", mean},
    LayerKind{"sum", "axes", "axes: all, keepdim: false", sum},
    activation_kind<"relu">(),
    activation_kind<"gelu">(),
    activation_kind<"gelu_tanh">(),
    activation_kind<"new_gelu">(),
    activation_kind<"gelu_fast">(),
    activation_kind<"quick_gelu">(),
    activation_kind<"silu">(),
    activation_kind<"sigmoid">(),
    activation_kind<"tanh">(),
    activation_kind<"relu6">(),
    activation_kind<"hardswish">(),
    activation_kind<"leaky_relu">(),
    activation_kind<"elu">(),
    activation_kind<"softplus">(),
    activation_kind<"mish">(),
};

}  // namespace

std::span<const LayerKind> layer_kinds() {
  return kKinds;
}

const LayerKind* find_layer_kind(std::string_view name) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const LayerKind& kind) { return kind.name == name; });
  return found == kKinds.end() ? nullptr : found;
}

}  // namespace tidemark
