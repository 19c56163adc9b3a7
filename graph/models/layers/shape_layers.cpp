// Layers without weights: dropout, softmax, shapes, reductions and activations.
#include <array>

#include <fmt/format.h>

#include "graph/models/language.hpp"
#include "graph/models/layers/layer_groups.hpp"
#include "graph/models/layers/layer_kind.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {
namespace shape_kinds {

using Context = LayerContext;

constexpr std::int64_t kAnyExtent = std::int64_t{1} << 40;

TensorId dropout(const Context& c) {
  need_numbers(c);
  return c.builder.dropout(c.x, read_probability(c, "p", 0.5), read_flag(c, "in_place", false));
}

TensorId softmax(const Context& c) {
  need_axes(c, 1);
  need_numbers(c);
  return c.builder.add("softmax", {c.x}, {{"axis", std::int64_t{read_axis(c, "axis", -1)}}});
}

TensorId scale(const Context& c) {
  need_numbers(c);
  return c.builder.scale(c.x);
}

TensorId flatten(const Context& c) {
  need_axes(c, 2);
  return c.builder.flatten(c.x, read_axis(c, "from_axis", 1));
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
  const int chosen = read_axis(c, "axis", 1);
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
  Attributes attributes{{"keepdim", std::int64_t{read_flag(c, "keepdim", false) ? 1 : 0}}};
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

template <LayerWord Name>
TensorId activation(const Context& c) {
  need_numbers(c);
  return activate(c.builder, Name.text, c.x, read_flag(c, "in_place", false));
}

template <LayerWord Name>
constexpr LayerKind activation_kind() {
  return {Name.text, "", "in_place: false", activation<Name>};
}

constexpr std::array kKinds = {
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

}  // namespace shape_kinds

std::span<const LayerKind> shape_layers() {
  return shape_kinds::kKinds;
}

}  // namespace tidemark
