#include "graph/operators/products/linear_product.hpp"

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"

namespace tidemark {

LinearExtent linear_extent(const NodeView& node) {
  const Tensor& x = node.input(kLinearX);
  const std::int64_t k = x.shape[-1];
  return {.m = x.elements().count / k, .n = node.output().shape[-1], .k = k};
}

void infer_linear(Inference& inference) {
  const Tensor& x = inference.input(kLinearX);
  const Tensor& weight = inference.input(kLinearWeight);
  inference.require(x.shape.rank() >= 1 && weight.shape.rank() == 2,
                    "needs an input with at least one axis and a weight with two");
  const bool transposed = inference.attributes().flag("transposed_weight");
  const std::int64_t in_features = weight.shape[transposed ? 0 : 1];
  const std::int64_t out_features = weight.shape[transposed ? 1 : 0];
  inference.require(x.shape[-1] == in_features, [&] {
    return fmt::format("the input's last axis is {}, but the weight takes {} features", x.shape[-1],
                       in_features);
  });
  if (inference.has_input(kLinearBias)) {
    const Shape& bias = inference.input(kLinearBias).shape;
    inference.require(bias == Shape{out_features}, [&] {
      return fmt::format("the bias has shape {}, but there are {} output features", to_string(bias),
                         out_features);
    });
  }
  Shape result = x.shape;
  result[-1] = out_features;
  inference.create(result, x.dtype);
}

void launch_bias_gradient(BackwardBuilder& backward, std::string_view name,
                          const Tensor& gradient) {
  if (!backward.needs_gradient(kLinearBias)) return;
  const Tensor result = backward.create_like("bias_gradient", backward.node().input(kLinearBias));
  backward.launch(
      {.name = name,
       .part = OperatorPart::kBiasGradient,
       .reads = {gradient},
       .creates = {result},
       .work = work_on(OperatorClass::kReduction, flops_per(1, gradient), {gradient}, {result})});
  backward.set_input_gradient(kLinearBias, result);
}

}  // namespace tidemark
