// Layers of images and other grids: convolutions, pooling.
#include <array>

#include <fmt/format.h>

#include "graph/models/layers/layer_groups.hpp"
#include "graph/models/layers/layer_kind.hpp"
#include "graph/models/model_limits.hpp"

namespace tidemark {
namespace image_kinds {

using Context = LayerContext;

constexpr std::int64_t kMaxKernel = 1 << 12;

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
          .bias = read_flag(c, "bias", true)};
}

// A layer of [batch, channels, spatial...] whose kernel is equally long along every spatial axis;
// the number of those stands in the family's name. The weight is [out, in / groups, kernel...],
// transposed [in, out / groups, kernel...].
template <LayerWord Family>
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

constexpr std::string_view kConvolution =
    "channels, kernel: 1, stride: 1, padding: 0, dilation: 1, groups: 1, bias: true";
constexpr std::string_view kPooling = "kernel, stride: kernel, padding: 0";

template <LayerWord Family>
constexpr LayerKind convolution_kind() {
  return {Family.text, "channels", kConvolution, convolution<Family>};
}

constexpr std::array kKinds = {
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
};

}  // namespace image_kinds

std::span<const LayerKind> image_layers() {
  return image_kinds::kKinds;
}

}  // namespace tidemark
