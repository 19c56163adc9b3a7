// Pooling over the trailing axes of [batch, channels, spatial...]: windows, and adaptive grids.
#include <algorithm>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"
#include "graph/operators/windows.hpp"

namespace tidemark {
namespace pooling_family_detail {

std::int64_t pooled(const Inference& inference, int axis) {
  const std::int64_t kernel = per_axis(inference.attributes(), "kernel", axis, 2);
  const Window window = window_along(inference, axis, kernel, kernel);
  inference.require(window.padding <= kernel / 2, "padding is at most half of the kernel");
  if (!inference.attributes().flag("ceil_mode")) return window.places();
  const std::int64_t count = (window.path() + window.stride - 1) / window.stride + 1;
  // The last window starts inside.
  return (count - 1) * window.stride >= window.padded - window.padding ? count - 1 : count;
}

// A kernel over one axis is PyTorch's over two, of which the first has one place: where the
// channels of [n, c, length] lie innermost, as after a permutation, they do in the result.
Strides pooled_order(const Shape& shape, const Tensor& x) {
  const bool innermost = x.shape[1] > 1 && x.strides[1] == 1 && !x.is_contiguous();
  if (shape.rank() != 3 || !innermost) return channel_order(shape, x);
  return {shape[1] * shape[2], 1, shape[1]};
}

void create_pooled(Inference& inference, bool adaptive) {
  const Tensor& x = inference.input(0);
  const int axes = inference.family_variant();
  require_spatial(inference, x, axes);
  Shape shape{x.shape[0], x.shape[1]};
  for (int axis = 0; axis < axes; ++axis) {
    shape.push_back(adaptive ? per_axis(inference.attributes(), "output_size", axis, 1)
                             : pooled(inference, axis));
  }
  inference.create(shape, x.dtype, pooled_order(shape, x));
}

void infer_windows(Inference& inference) {
  create_pooled(inference, false);
}

void infer_adaptive(Inference& inference) {
  create_pooled(inference, true);
}

Bytes index_bytes(const NodeView& node) {
  return bytes_of(DType::kInt64, node.output().elements());
}

ForwardKernel forward_average(const NodeView& node) {
  ForwardKernel kernel{.work = node.elementwise_work(OperatorClass::kPooling, 1)};
  kernel.work.flops = flops_per(1, node.input(0));
  return kernel;
}

ForwardKernel forward_max(const NodeView& node) {
  ForwardKernel kernel = forward_average(node);
  kernel.work.written += index_bytes(node);
  if (!node.output().requires_grad) kernel.workspace = index_bytes(node);
  return kernel;
}

void save_max(SavedSet& saved) {
  saved.input(0);
  saved.extra("indices", saved.node().output().shape, DType::kInt64);
}

void save_average(SavedSet& saved) {
  saved.input(0);
}

// A grid of one place is input.mean() over the spatial axes.
void save_adaptive_average(SavedSet& saved) {
  const NodeView& node = saved.node();
  const bool is_mean =
      node.output().elements().count == node.output().shape[0] * node.output().shape[1];
  if (!is_mean || node.rules().mean_saves_input) saved.input(0);
}

// Backward needs only the shape of the input, but the input is kept.
void launch_backward(BackwardBuilder& b, std::vector<Tensor> reads) {
  const Tensor result = create_dense(b, "input_gradient", b.node().input(0));
  const std::string name = std::string(b.node().family_name()) + ".backward";
  b.launch_elementwise(name, std::move(reads), result, OperatorClass::kPooling);
  b.set_input_gradient(0, result);
}

void backward_max(BackwardBuilder& b) {
  launch_backward(b, {b.output_gradient(), b.saved("indices")});
}

void backward_average(BackwardBuilder& b) {
  launch_backward(b, {b.output_gradient()});
}

constexpr OperatorFamily maxima(int axes, std::string_view name, std::string_view summary,
                                bool adaptive) {
  return {.name = name,
          .summary = summary,
          .infer = adaptive ? infer_adaptive : infer_windows,
          .forward = forward_max,
          .save = save_max,
          .backward = backward_max,
          .variant = axes};
}

constexpr OperatorFamily means(int axes, std::string_view name, std::string_view summary,
                               bool adaptive) {
  return {.name = name,
          .summary = summary,
          .infer = adaptive ? infer_adaptive : infer_windows,
          .forward = forward_average,
          .save = adaptive ? save_adaptive_average : save_average,
          .backward = backward_average,
          .variant = axes};
}

constexpr OperatorFamily kFamilies[] = {
    maxima(1, "max_pool1d", "maxima of windows; keeps the input and int64 indices", false),
    maxima(2, "max_pool2d", "maxima of windows; keeps the input and int64 indices", false),
    maxima(3, "max_pool3d", "maxima of windows; keeps the input and int64 indices", false),
    means(1, "avg_pool1d", "means of windows; keeps the input", false),
    means(2, "avg_pool2d", "means of windows; keeps the input", false),
    means(3, "avg_pool3d", "means of windows; keeps the input", false),
    maxima(1, "adaptive_max_pool1d", "maxima over output_size cells; keeps input and indices",
           true),
    maxima(2, "adaptive_max_pool2d", "maxima over output_size cells; keeps input and indices",
           true),
    maxima(3, "adaptive_max_pool3d", "maxima over output_size cells; keeps input and indices",
           true),
    means(1, "adaptive_avg_pool1d", "means over output_size cells; one cell is a mean", true),
    means(2, "adaptive_avg_pool2d", "means over output_size cells; one cell is a mean", true),
    means(3, "adaptive_avg_pool3d", "means over output_size cells; one cell is a mean", true),
};

}  // namespace pooling_family_detail

std::span<const OperatorFamily> pooling_families() {
  return pooling_family_detail::kFamilies;
}

}  // namespace tidemark
