// torch.nn.functional.conv_transpose1d, 2d and 3d on [batch, channels, spatial...].
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"
#include "graph/operators/windows.hpp"

namespace tidemark {
namespace transposed_convolution_family_detail {

constexpr std::size_t kX = 0;
constexpr std::size_t kWeight = 1;  // [in, out / groups, kernel...]
constexpr std::size_t kBias = 2;    // [out], optional

// (x - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1
std::int64_t output_extent(const Inference& inference, int axis) {
  const Attributes& attributes = inference.attributes();
  const std::int64_t stride = per_axis(attributes, "stride", axis, 1);
  const std::int64_t padding = per_axis(attributes, "padding", axis, 0);
  const std::int64_t dilation = per_axis(attributes, "dilation", axis, 1);
  const std::int64_t added = per_axis(attributes, "output_padding", axis, 0);
  inference.require(stride >= 1 && dilation >= 1 && padding >= 0 && added >= 0,
                    "stride, dilation and groups start at 1, paddings at 0");
  inference.require(added < stride || added < dilation,
                    "output_padding must be smaller than stride or dilation");
  const std::int64_t kernel = inference.input(kWeight).shape[axis + 2];
  return (inference.input(kX).shape[axis + 2] - 1) * stride - 2 * padding +
         dilation * (kernel - 1) + added + 1;
}

void infer(Inference& inference) {
  const Tensor& x = inference.input(kX);
  const Tensor& weight = inference.input(kWeight);
  const int axes = inference.family_variant();
  require_spatial(inference, x, axes);
  require_filters(inference, x, weight);
  const std::int64_t groups = inference.attributes().integer("groups", 1);
  inference.require(groups >= 1, "stride, dilation and groups start at 1, paddings at 0");
  inference.require(x.shape[1] == weight.shape[0] && x.shape[1] % groups == 0, [&] {
    return fmt::format("{} input channels do not match a weight of {} in {} groups", x.shape[1],
                       to_string(weight.shape), groups);
  });
  Shape result{x.shape[0], weight.shape[1] * groups};
  if (inference.has_input(kBias)) {
    inference.require(inference.input(kBias).shape == Shape{result[1]},
                      "the bias does not match the output channels");
  }
  for (int axis = 0; axis < axes; ++axis)
    result.push_back(output_extent(inference, axis));
  inference.create(result, x.dtype, channel_order(result, leading_operand(x, weight)));
}

Work work_of(const NodeView& node, OperatorClass op_class, const Tensor& a, const Tensor& b,
             const Tensor& result) {
  const Tensor& weight = node.input(kWeight);
  const std::int64_t per_input = weight.elements().count / weight.shape[0];
  const double flops = 2 * static_cast<double>(per_input);
  return work_on(op_class, flops_per(flops, node.input(kX)), {a, b}, {result});
}

// slow_conv_transpose unfolds one sample into columns [out / groups * kernel, spatial of the input]
// and adds the bias by a product with ones; cuDNN transforms the filters.
Bytes columns(const NodeView& node) {
  const Tensor& weight = node.input(kWeight);
  if (!node.rules().unfolds_transposed_convolutions) return weight.bytes();
  const Tensor& x = node.input(kX);
  const std::int64_t rows = weight.elements().count / weight.shape[0];
  const std::int64_t places = x.elements().count / (x.shape[0] * x.shape[1]);
  return bytes_of(x.dtype, Elements(rows * places));
}

Bytes ones(const NodeView& node) {
  if (!node.rules().unfolds_transposed_convolutions) return Bytes(0);
  const Tensor& out = node.output();
  return Bytes(out.bytes().count / (out.shape[0] * out.shape[1]));
}

// A transposed convolution runs the data gradient of a convolution, and the other way round.
ForwardKernel forward(const NodeView& node) {
  return {.work = work_of(node, OperatorClass::kConvolutionBackwardData, node.input(kX),
                          node.input(kWeight), node.output()),
          .workspace = columns(node) + ones(node)};
}

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
    b.launch({.name = family + ".input_gradient",
              .part = OperatorPart::kInputGradient,
              .reads = {gradient, weight},
              .creates = {result},
              .work = work_of(node, OperatorClass::kConvolution, gradient, weight, result),
              .workspace = columns(node)});
    b.set_input_gradient(kX, result);
  }
  const std::string weight_kernel = family + ".weight_gradient";
  BackwardBuilder::Kernel kernel{
      .name = weight_kernel, .part = OperatorPart::kWeightGradient, .reads = {gradient, x}};
  constexpr std::string_view kNames[] = {"weight_gradient", "bias_gradient"};
  for (std::size_t i : {kWeight, kBias}) {
    if (!b.needs_gradient(i)) continue;
    kernel.creates.push_back(b.create_like(kNames[i - kWeight], node.input(i)));
    b.set_input_gradient(i, kernel.creates.back());
  }
  if (kernel.creates.empty()) return;
  kernel.work = work_of(node, OperatorClass::kConvolutionBackwardWeight, gradient, x, weight);
  kernel.work.launches = static_cast<int>(kernel.creates.size());
  kernel.workspace = columns(node);
  b.launch(kernel);
}

// The variant is the number of spatial axes.
constexpr OperatorFamily kFamilies[] = {
    {"conv_transpose1d", "1-D transposed convolution; keeps input and weight", infer, forward, save,
     backward, InEvaluation::kSame, 1},
    {"conv_transpose2d", "2-D transposed convolution; keeps input and weight", infer, forward, save,
     backward, InEvaluation::kSame, 2},
    {"conv_transpose3d", "3-D transposed convolution; keeps input and weight", infer, forward, save,
     backward, InEvaluation::kSame, 3},
};

}  // namespace transposed_convolution_family_detail

std::span<const OperatorFamily> transposed_convolution_families() {
  return transposed_convolution_family_detail::kFamilies;
}

}  // namespace tidemark
