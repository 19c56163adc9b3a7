// Pooling over the last two axes of [batch, channels, height, width].
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace {

std::int64_t pooled(const Inference& inference, std::int64_t extent) {
  const Attributes& attributes = inference.attributes();
  const std::int64_t kernel = attributes.integer("kernel", 2);
  const std::int64_t stride = attributes.integer("stride", kernel);
  const std::int64_t padding = attributes.integer("padding", 0);
  inference.require(kernel >= 1 && stride >= 1 && padding >= 0 && padding <= kernel / 2,
                    "kernel and stride start at 1, padding is at most half of the kernel");
  const std::int64_t span = extent + 2 * padding - kernel;
  inference.require(span >= 0, fmt::format("a kernel of {} is larger than the padded input of {}",
                                           kernel, extent + 2 * padding));
  if (!attributes.flag("ceil_mode")) return span / stride + 1;
  std::int64_t count = (span + stride - 1) / stride + 1;
  if ((count - 1) * stride >= extent + padding) --count;  // the last window starts inside
  return count;
}

void infer_windows(Inference& inference) {
  const Tensor& x = inference.input(0);
  inference.require(x.shape.rank() == 4, "needs the axes batch, channels, height, width");
  inference.create(
      {x.shape[0], x.shape[1], pooled(inference, x.shape[2]), pooled(inference, x.shape[3])},
      x.dtype);
}

void infer_adaptive(Inference& inference) {
  const Tensor& x = inference.input(0);
  const std::int64_t size = inference.attributes().integer("output_size", 1);
  inference.require(x.shape.rank() == 4, "needs the axes batch, channels, height, width");
  inference.create({x.shape[0], x.shape[1], size, size}, x.dtype);
}

Bytes index_bytes(const NodeView& node) {
  return Bytes(node.output().elements() * size_of(DType::kInt64));
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

// Backward asks the input for its shape only, but the input is kept.
void launch_backward(BackwardBuilder& b, std::string_view name, std::vector<Tensor> reads) {
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  b.launch_elementwise(name, std::move(reads), result, OperatorClass::kPooling);
  b.set_input_gradient(0, result);
}

void backward_max(BackwardBuilder& b) {
  launch_backward(b, "max_pool2d.backward", {b.output_gradient(), b.saved("indices")});
}

void backward_average(BackwardBuilder& b) {
  launch_backward(b, "avg_pool2d.backward", {b.output_gradient()});
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "max_pool2d",
     .summary = "maxima of windows; keeps the input and int64 indices",
     .infer = infer_windows,
     .forward = forward_max,
     .save = save_max,
     .backward = backward_max},
    {.name = "avg_pool2d",
     .summary = "means of windows; keeps the input",
     .infer = infer_windows,
     .forward = forward_average,
     .save = save_average,
     .backward = backward_average},
    {.name = "adaptive_avg_pool2d",
     .summary = "means over a grid of output_size squared; keeps the input (size 1 is a mean)",
     .infer = infer_adaptive,
     .forward = forward_average,
     .save = save_average,
     .backward = backward_average},
};

}  // namespace

std::span<const OperatorFamily> pooling_families() {
  return kFamilies;
}

}  // namespace tidemark
