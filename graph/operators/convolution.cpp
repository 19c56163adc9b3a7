// torch.nn.functional.conv2d on [batch, channels, height, width].
#include <algorithm>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace {

constexpr std::size_t kX = 0;
constexpr std::size_t kWeight = 1;  // [out, in / groups, kernel height, kernel width]
constexpr std::size_t kBias = 2;    // [out], optional

struct Geometry {
  std::int64_t stride, padding, dilation, groups;
};

Geometry geometry_of(const Attributes& attributes) {
  return {.stride = attributes.integer("stride", 1),
          .padding = attributes.integer("padding", 0),
          .dilation = attributes.integer("dilation", 1),
          .groups = attributes.integer("groups", 1)};
}

void infer(Inference& inference) {
  const Shape& x = inference.input(kX).shape;
  const Shape& weight = inference.input(kWeight).shape;
  inference.require(x.rank() == 4 && weight.rank() == 4,
                    "needs [batch, channels, height, width] and a weight with four axes");
  const Geometry g = geometry_of(inference.attributes());
  inference.require(g.stride >= 1 && g.dilation >= 1 && g.groups >= 1 && g.padding >= 0,
                    "stride, dilation and groups start at 1, padding at 0");
  inference.require(x[1] == weight[1] * g.groups && weight[0] % g.groups == 0,
                    fmt::format("{} input channels do not match a weight of {} in {} groups", x[1],
                                to_string(weight), g.groups));
  inference.require(inference.input(kX).dtype == inference.input(kWeight).dtype,
                    "input and weight differ in type");
  if (inference.has_input(kBias)) {
    inference.require(inference.input(kBias).shape == Shape{weight[0]},
                      "the bias does not match the output channels");
  }
  const auto extent = [&](int axis) {
    const std::int64_t span = x[axis] + 2 * g.padding - g.dilation * (weight[axis] - 1) - 1;
    inference.require(span >= 0, "the kernel is larger than the padded input");
    return span / g.stride + 1;
  };
  inference.create({x[0], weight[0], extent(2), extent(3)}, inference.input(kX).dtype);
}

bool is_depthwise(const NodeView& node) {
  return node.input(kWeight).shape[1] == 1 && node.attributes().integer("groups", 1) > 1;
}

// 2 N P Q K C R S / groups, for each of forward, data gradient and weight gradient.
Flops flops_of(const NodeView& node) {
  const Shape& weight = node.input(kWeight).shape;
  return flops_per(2.0 * static_cast<double>(weight[1] * weight[2] * weight[3]), node.output());
}

Work work_of(const NodeView& node, OperatorClass op_class, const Tensor& a, const Tensor& b,
             const Tensor& result) {
  const OperatorClass kind = is_depthwise(node) ? OperatorClass::kDepthwiseConvolution : op_class;
  return work_on(kind, flops_of(node), {a, b}, {result});
}

bool is_pointwise(const NodeView& node) {
  return node.input(kWeight).shape[2] == 1 && node.input(kWeight).shape[3] == 1;
}

// On a GPU: one transformed copy of the filters, none for 1x1 kernels; what cuDNN really takes
// depends on the algorithm that its heuristics choose, from nothing to several activations.
// On a CPU: oneDNN copies operands into its blocked layout, measured on 1.13.1.
Bytes forward_workspace(const NodeView& node) {
  if (is_pointwise(node)) return Bytes(0);
  const Bytes weight = node.input(kWeight).bytes();
  if (!runs_on_cpu(node.rules())) return weight;
  return std::max(node.output().bytes(), node.input(kX).bytes() + weight);
}

Bytes data_workspace(const NodeView& node) {
  if (is_pointwise(node)) return Bytes(0);
  const Bytes weight = node.input(kWeight).bytes();
  if (!runs_on_cpu(node.rules())) return weight;
  return std::max(node.input(kX).bytes(), node.output().bytes() + weight);
}

Bytes weight_workspace(const NodeView& node) {
  if (is_pointwise(node)) return Bytes(0);
  if (!runs_on_cpu(node.rules())) {
    return Bytes(node.input(kWeight).elements() * size_of(DType::kFloat32));  // fp32 sums
  }
  // The blocked operands are gone when the blocked result is copied back to rows.
  return std::max(node.output().bytes() + node.input(kX).bytes(), node.input(kWeight).bytes());
}

ForwardKernel forward(const NodeView& node) {
  return {.work = work_of(node, OperatorClass::kConvolution, node.input(kX), node.input(kWeight),
                          node.output()),
          .workspace = forward_workspace(node)};
}

// A frozen convolution keeps both operands all the same.
void save(SavedSet& saved) {
  saved.input(kX);
  saved.input(kWeight);
}

void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.contiguous(b.output_gradient());
  const Tensor& x = node.input(kX);
  const Tensor& weight = node.input(kWeight);
  if (b.needs_gradient(kX)) {
    const Tensor result = b.create_like("input_gradient", x);
    b.launch(
        {.name = "conv2d.input_gradient",
         .reads = {gradient, weight},
         .creates = {result},
         .work = work_of(node, OperatorClass::kConvolutionBackwardData, gradient, weight, result),
         .workspace = data_workspace(node)});
    b.set_input_gradient(kX, result);
  }
  if (b.needs_gradient(kWeight)) {
    const Tensor result = b.create_like("weight_gradient", weight);
    b.launch({.name = "conv2d.weight_gradient",
              .reads = {gradient, x},
              .creates = {result},
              .work = work_of(node, OperatorClass::kConvolutionBackwardWeight, gradient, x, result),
              .workspace = weight_workspace(node)});
    b.set_input_gradient(kWeight, result);
  }
  if (b.needs_gradient(kBias)) {
    const Tensor result = b.create_like("bias_gradient", node.input(kBias));
    b.launch(
        {.name = "conv2d.bias_gradient",
         .reads = {gradient},
         .creates = {result},
         .work = work_on(OperatorClass::kReduction, flops_per(1, gradient), {gradient}, {result})});
    b.set_input_gradient(kBias, result);
  }
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "conv2d",
     .summary = "2-D convolution with groups and dilation; keeps the input and the weight",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace

std::span<const OperatorFamily> convolution_families() {
  return kFamilies;
}

}  // namespace tidemark
