// torch.nn.functional.conv1d, conv2d and conv3d on [batch, channels, spatial...].
#include <algorithm>

#include <fmt/format.h>

#include "graph/ir/convolutions.hpp"
#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"
#include "graph/operators/windows.hpp"

namespace tidemark {
namespace convolution_family_detail {

constexpr std::size_t kX = 0;
constexpr std::size_t kWeight = 1;  // [out, in / groups, kernel...]
constexpr std::size_t kBias = 2;    // [out], optional

std::int64_t groups_of(const Attributes& attributes) {
  return attributes.integer("groups", 1);
}

void infer(Inference& inference) {
  const Tensor& x = inference.input(kX);
  const Tensor& weight = inference.input(kWeight);
  const int axes = inference.family_variant();
  require_spatial(inference, x, axes);
  require_filters(inference, x, weight);
  const std::int64_t groups = groups_of(inference.attributes());
  inference.require(groups >= 1, "groups start at 1");
  inference.require(x.shape[1] == weight.shape[1] * groups && weight.shape[0] % groups == 0, [&] {
    return fmt::format("{} input channels do not match a weight of {} in {} groups", x.shape[1],
                       to_string(weight.shape), groups);
  });
  if (inference.has_input(kBias)) {
    inference.require(inference.input(kBias).shape == Shape{weight.shape[0]},
                      "the bias does not match the output channels");
  }
  Shape result{x.shape[0], weight.shape[0]};
  for (int axis = 0; axis < axes; ++axis)
    result.push_back(window_along(inference, axis, weight.shape[axis + 2]).places());
  inference.create(result, x.dtype, channel_order(result, leading_operand(x, weight)));
}

bool is_depthwise(const NodeView& node) {
  return node.input(kWeight).shape[1] == 1 && groups_of(node.attributes()) > 1;
}

// 2 N P Q K C R S / groups, for each of forward, data gradient and weight gradient.
Flops flops_of(const NodeView& node) {
  const Tensor& weight = node.input(kWeight);
  const std::int64_t per_output = weight.elements().count / weight.shape[0];
  return flops_per(2.0 * static_cast<double>(per_output), node.output());
}

// Returns the elements of one channel of one sample.
std::int64_t places(const Tensor& tensor) {
  return tensor.elements().count / (tensor.shape[0] * tensor.shape[1]);
}

ConvolutionShape shape_of(const NodeView& node) {
  const Tensor& x = node.input(kX);
  const Tensor& weight = node.input(kWeight);
  const int axes = weight.shape.rank() - 2;
  ConvolutionShape shape{.batch = x.shape[0],
                         .channels = x.shape[1],
                         .filters = weight.shape[0],
                         .input_places = places(x),
                         .output_places = places(node.output()),
                         .window = places(weight),
                         .groups = groups_of(node.attributes()),
                         .square = axes == 2 && weight.shape[2] == weight.shape[3]};
  for (int axis = 0; axis < axes; ++axis)
    shape.stride *= per_axis(node.attributes(), "stride", axis, 1);
  return shape;
}

bool in_channels_last(const NodeView& node) {
  return leading_operand(node.input(kX), node.input(kWeight)).is_channels_last() ||
         node.output().is_channels_last();
}

Work work_of(const NodeView& node, OperatorClass op_class, const Tensor& a, const Tensor& b,
             const Tensor& result) {
  const bool depthwise = is_depthwise(node);
  Work work = work_on(depthwise ? OperatorClass::kDepthwiseConvolution : op_class, flops_of(node),
                      {a, b}, {result});
  if (!depthwise) describe_convolution(work, shape_of(node));
  work.channels_last = in_channels_last(node);
  return work;
}

// Adds the copy of the input in the filters' order, which the kernel reads in its place.
void reorder_input(const NodeView& node, Work& work, Bytes& workspace) {
  const Bytes copy = reordered_bytes(node.input(kX), node.input(kWeight));
  if (copy == Bytes(0)) return;
  work.apart += copy * 2;
  ++work.launches;
  workspace += copy;
}

// On a GPU the bias is added to the output by a kernel of its own (ATen's _convolution), on a CPU
// by the convolution's.
void add_bias(const NodeView& node, Work& work) {
  if (!node.has_input(kBias) || node.rules().blocked_convolutions) return;
  work.apart += node.output().bytes() * 2;
  ++work.launches;
}

bool is_pointwise(const NodeView& node) {
  const Tensor& weight = node.input(kWeight);
  return weight.elements().count == weight.shape[0] * weight.shape[1];
}

// Returns the workspace of forward. On a GPU: one transformed copy of the filters, none for 1x1
// kernels; cuDNN's real use depends on the algorithm that its heuristics choose, from nothing to
// several activations. On a CPU: oneDNN copies operands into its blocked layout, of channels-last
// operands only the filters; measured on 1.13.1.
Bytes forward_workspace(const NodeView& node) {
  if (is_pointwise(node)) return Bytes(0);
  const Bytes weight = node.input(kWeight).bytes();
  if (!node.rules().blocked_convolutions || in_channels_last(node)) return weight;
  return std::max(node.output().bytes(), node.input(kX).bytes() + weight);
}

Bytes data_workspace(const NodeView& node) {
  if (is_pointwise(node)) return Bytes(0);
  const Bytes weight = node.input(kWeight).bytes();
  if (!node.rules().blocked_convolutions || in_channels_last(node)) return weight;
  return std::max(node.input(kX).bytes(), node.output().bytes() + weight);
}

Bytes weight_workspace(const NodeView& node) {
  if (is_pointwise(node)) return Bytes(0);
  if (!node.rules().blocked_convolutions) {
    return bytes_of(DType::kFloat32, Elements(node.input(kWeight).elements().count));  // fp32 sums
  }
  const Bytes weight = node.input(kWeight).bytes();
  const Bytes bias = node.needs_gradient(kBias) ? node.input(kBias).bytes() : Bytes(0);
  // The workspace is the filters' gradient blocked and as rows, and that of the bias blocked and as
  // it is.
  if (in_channels_last(node)) return (weight + bias) * 2;
  // The same kernel makes the bias gradient. The blocked operands are freed when the blocked result
  // is copied back to rows.
  return std::max(node.output().bytes() + node.input(kX).bytes(), weight) + bias;
}

ForwardKernel forward(const NodeView& node) {
  ForwardKernel kernel{.work = work_of(node, OperatorClass::kConvolution, node.input(kX),
                                       node.input(kWeight), node.output()),
                       .workspace = forward_workspace(node)};
  reorder_input(node, kernel.work, kernel.workspace);
  add_bias(node, kernel.work);
  return kernel;
}

// A frozen convolution keeps both operands all the same.
void save(SavedSet& saved) {
  saved.input(kX);
  saved.input(kWeight);
}

void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor& x = node.input(kX);
  const Tensor& weight = node.input(kWeight);
  const std::string family(node.family_name());
  const Tensor gradient = ordered_gradient(b);
  if (b.needs_gradient(kX)) {
    Tensor result = create_dense(b, "input_gradient", x);
    if (weight.is_channels_last()) result.strides = channel_order(x.shape, weight);
    b.launch(
        {.name = family + ".input_gradient",
         .part = OperatorPart::kInputGradient,
         .reads = {gradient, weight},
         .creates = {result},
         .work = work_of(node, OperatorClass::kConvolutionBackwardData, gradient, weight, result),
         .workspace = data_workspace(node)});
    b.set_input_gradient(kX, result);
  }
  if (b.needs_gradient(kWeight)) {
    const Tensor result = b.create_like("weight_gradient", weight);
    Work work = work_of(node, OperatorClass::kConvolutionBackwardWeight, gradient, x, result);
    Bytes workspace = weight_workspace(node);
    reorder_input(node, work, workspace);
    b.launch({.name = family + ".weight_gradient",
              .part = OperatorPart::kWeightGradient,
              .reads = {gradient, x},
              .creates = {result},
              .work = work,
              .workspace = workspace});
    b.set_input_gradient(kWeight, result);
  }
  if (b.needs_gradient(kBias)) {
    const Tensor result = b.create_like("bias_gradient", node.input(kBias));
    b.launch(
        {.name = family + ".bias_gradient",
         .part = OperatorPart::kBiasGradient,
         .reads = {gradient},
         .creates = {result},
         .work = work_on(OperatorClass::kReduction, flops_per(1, gradient), {gradient}, {result})});
    b.set_input_gradient(kBias, result);
  }
}

// The variant is the number of spatial axes.
constexpr OperatorFamily kFamilies[] = {
    {"conv1d", "1-D convolution with groups and dilation; keeps input and weight", infer, forward,
     save, backward, InEvaluation::kSame, 1},
    {"conv2d", "2-D convolution with groups and dilation; keeps input and weight", infer, forward,
     save, backward, InEvaluation::kSame, 2},
    {"conv3d", "3-D convolution with groups and dilation; keeps input and weight", infer, forward,
     save, backward, InEvaluation::kSame, 3},
};

}  // namespace convolution_family_detail

std::span<const OperatorFamily> convolution_families() {
  return convolution_family_detail::kFamilies;
}

}  // namespace tidemark
