#include "graph/operators/windows.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"

namespace tidemark {

std::int64_t per_axis(const Attributes& attributes, std::string_view name, int axis,
                      std::int64_t fallback) {
  if (!attributes.holds<std::vector<std::int64_t>>(name)) return attributes.integer(name, fallback);
  const std::vector<std::int64_t> list = attributes.list(name);
  const auto index = static_cast<std::size_t>(axis);
  return index < list.size() ? list[index] : fallback;
}

Window window_along(const Inference& inference, int axis, std::int64_t kernel,
                    std::int64_t default_stride) {
  // Far beyond any image; products of three of them stay within 63 bits.
  constexpr std::int64_t kMostPlaces = std::int64_t{1} << 20;
  const Attributes& attributes = inference.attributes();
  const std::int64_t stride = per_axis(attributes, "stride", axis, default_stride);
  const std::int64_t padding = per_axis(attributes, "padding", axis, 0);
  const std::int64_t dilation = per_axis(attributes, "dilation", axis, 1);
  inference.require(kernel >= 1 && stride >= 1 && dilation >= 1 && padding >= 0,
                    "kernel, stride and dilation start at 1, padding at 0");
  inference.require(std::max({stride, dilation, padding, kernel}) <= kMostPlaces, [&] {
    return fmt::format("stride, dilation, padding and kernel are at most {}", kMostPlaces);
  });
  const Window window{.kernel = kernel,
                      .stride = stride,
                      .padding = padding,
                      .padded = inference.input(0).shape[axis + 2] + 2 * padding,
                      .reach = dilation * (kernel - 1) + 1};
  inference.require(window.path() >= 0, [&] {
    return fmt::format(
        "a kernel that reaches over {} is larger than the padded input of {}; it takes a padding "
        "of {}",
        window.reach, window.padded, padding + (1 - window.path()) / 2);
  });
  return window;
}

void require_spatial(const Inference& inference, const Tensor& x, int axes) {
  inference.require(x.shape.rank() == axes + 2, [&] {
    return fmt::format("needs the axes batch and channels and {} more", axes);
  });
}

void require_filters(const Inference& inference, const Tensor& x, const Tensor& weight) {
  inference.require(weight.shape.rank() == x.shape.rank(),
                    [&] { return fmt::format("the weight needs {} axes", x.shape.rank()); });
  inference.require(x.dtype == weight.dtype, "input and weight differ in type");
}

Strides channel_order(const Shape& shape, const Tensor& input) {
  if (shape.rank() < 4 || !input.is_channels_last()) return contiguous_strides(shape);
  Strides order = contiguous_strides(shape);
  order[1] = 1;
  for (int axis = 2; axis < shape.rank(); ++axis)
    order[axis] *= shape[1];
  return dense_strides(shape, order);
}

const Tensor& leading_operand(const Tensor& x, const Tensor& weight) {
  return weight.is_channels_last() ? weight : x;
}

Bytes reordered_bytes(const Tensor& operand, const Tensor& leading) {
  if (!leading.is_channels_last() || operand.is_channels_last()) return Bytes(0);
  // One channel or one place is in both orders.
  const std::int64_t channels = operand.shape[0] * operand.shape[1];
  const bool ordered = operand.shape[1] == 1 || operand.elements().count == channels;
  return ordered && operand.is_contiguous() ? Bytes(0) : operand.bytes();
}

Tensor ordered_gradient(BackwardBuilder& b) {
  const bool same_order = b.node().output().strides == b.output_gradient().strides;
  return same_order ? b.output_gradient() : b.contiguous_inside(b.output_gradient());
}

}  // namespace tidemark
