// torch.nn.functional.interpolate on [batch, channels, spatial...]. Nothing is kept: sizes are
// numbers, and the weights are recomputed.
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "graph/core/saturated.hpp"
#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"
#include "graph/operators/windows.hpp"

namespace tidemark {
namespace interpolate_family_detail {

// Neighbours per axis that one result is made of.
constexpr std::array<std::pair<std::string_view, int>, 6> kTaps = {{{"nearest", 1},
                                                                    {"nearest-exact", 1},
                                                                    {"linear", 2},
                                                                    {"bilinear", 2},
                                                                    {"trilinear", 2},
                                                                    {"bicubic", 4}}};

int taps_of(const Attributes& attributes) {
  const std::string mode = attributes.text("mode", "nearest");
  for (const auto& [name, taps] : kTaps) {
    if (name == mode) return taps;
  }
  return 0;
}

// `size` gives the new extents; without it `scale` multiplies the old ones.
void infer(Inference& inference) {
  const Tensor& x = inference.input(0);
  const Attributes& attributes = inference.attributes();
  inference.require(x.shape.rank() >= 3 && x.shape.rank() <= 5,
                    "needs batch, channels and one to three more axes");
  inference.require(taps_of(attributes) > 0, [&] {
    return fmt::format(
        "mode '{}' is not nearest, nearest-exact, linear, bilinear, "
        "trilinear or bicubic",
        attributes.text("mode"));
  });
  const double scale = attributes.number("scale", 1);
  inference.require(scale > 0, [&] { return fmt::format("scale {} is not above 0", scale); });
  Shape shape{x.shape[0], x.shape[1]};
  for (int axis = 2; axis < x.shape.rank(); ++axis) {
    const auto scaled = saturated(std::floor(static_cast<double>(x.shape[axis]) * scale));
    shape.push_back(per_axis(attributes, "size", axis - 2, scaled));
  }
  inference.create(shape, x.dtype, channel_order(shape, x));
}

// The CPU kernel tabulates an int64 index and a weight for each tap of each place along an axis.
Bytes tables(const NodeView& node) {
  if (!node.rules().tabulates_interpolation) return Bytes(0);
  std::int64_t places = 0;
  for (int axis = 2; axis < node.output().shape.rank(); ++axis)
    places += node.output().shape[axis];
  const std::int64_t entries = places * taps_of(node.attributes());
  return bytes_of(DType::kInt64, Elements(entries)) + bytes_of(DType::kFloat32, Elements(entries));
}

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kPooling, 2.0 * taps_of(node.attributes())),
          .workspace = tables(node)};
}

void backward(BackwardBuilder& b) {
  const Tensor result = create_dense(b, "input_gradient", b.node().input(0));
  b.launch_elementwise("interpolate.backward", {b.output_gradient()}, result,
                       OperatorClass::kPooling);
  b.set_input_gradient(0, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "interpolate",
     .summary = "resizes spatial axes to `size` or by `scale`; keeps nothing",
     .infer = infer,
     .forward = forward,
     .save = save_nothing,
     .backward = backward},
};

}  // namespace interpolate_family_detail

std::span<const OperatorFamily> interpolate_families() {
  return interpolate_family_detail::kFamilies;
}

}  // namespace tidemark
