// torch.nn.functional.linear and matrix products with a 2-D right operand (addmm, mm).
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace linear_family {

constexpr std::size_t kX = 0;       // [..., k]
constexpr std::size_t kWeight = 1;  // [n, k]; [k, n] with transposed_weight (GPT-2's Conv1D, mm)
constexpr std::size_t kBias = 2;    // [n], optional

struct Extent {
  std::int64_t m, n, k;
};

Extent extent_of(const NodeView& node) {
  const Tensor& x = node.input(kX);
  const std::int64_t k = x.shape[-1];
  return {.m = x.elements().count / k, .n = node.output().shape[-1], .k = k};
}

void infer(Inference& inference) {
  const Tensor& x = inference.input(kX);
  const Tensor& weight = inference.input(kWeight);
  inference.require(x.shape.rank() >= 1 && weight.shape.rank() == 2,
                    "needs an input with at least one axis and a weight with two");
  const bool transposed = inference.attributes().flag("transposed_weight");
  const std::int64_t in_features = weight.shape[transposed ? 0 : 1];
  const std::int64_t out_features = weight.shape[transposed ? 1 : 0];
  inference.require(x.shape[-1] == in_features,
                    fmt::format("the input's last axis is {}, but the weight takes {} features",
                                x.shape[-1], in_features));
  inference.require(x.dtype == weight.dtype,
                    fmt::format("the input is {}, but the weight is {}: cast one of them",
                                name_of(x.dtype), name_of(weight.dtype)));
  if (inference.has_input(kBias)) {
    const Shape& bias = inference.input(kBias).shape;
    inference.require(bias == Shape{out_features},
                      fmt::format("the bias has shape {}, but there are {} output features",
                                  to_string(bias), out_features));
  }
  Shape result = x.shape;
  result[-1] = out_features;
  inference.create(result, x.dtype);
}

ForwardKernel forward(const NodeView& node) {
  const auto [m, n, k] = extent_of(node);
  ForwardKernel kernel{.work = matmul_work(node.output().dtype, m, n, k, 1)};
  if (node.has_input(kBias)) kernel.work.read += node.input(kBias).bytes();
  return kernel;
}

// A frozen weight does not need the input, and an input without gradient not the weight.
void save(SavedSet& saved) {
  if (saved.node().needs_gradient(kWeight)) saved.input(kX);
  if (saved.node().needs_gradient(kX)) saved.input(kWeight);
}

// AddmmBackward computes mat1, mat2, then the bias; MmBackward, without a bias, mat2 before self.
void backward(BackwardBuilder& b) {
  const auto [m, n, k] = extent_of(b.node());
  const Tensor& x = b.node().input(kX);
  const Tensor& weight = b.node().input(kWeight);
  const Tensor gradient = reshaped(b, b.output_gradient(), {m, n});
  const auto input_gradient = [&, m = m, n = n, k = k] {
    if (!b.needs_gradient(kX)) return;
    const Tensor result = b.create("input_gradient", x.shape, x.dtype);
    b.launch({.name = "linear.input_gradient",
              .part = OperatorPart::kInputGradient,
              .reads = {gradient, weight},
              .creates = {result},
              .work = matmul_work(x.dtype, m, k, n, 1)});
    b.set_input_gradient(kX, result);
  };
  const auto weight_gradient = [&, m = m, n = n, k = k] {
    if (!b.needs_gradient(kWeight)) return;
    const Tensor result = b.create("weight_gradient", weight.shape, weight.dtype);
    b.launch({.name = "linear.weight_gradient",
              .part = OperatorPart::kWeightGradient,
              .reads = {gradient, x},
              .creates = {result},
              .work = matmul_work(x.dtype, n, k, m, 1)});
    b.set_input_gradient(kWeight, result);
  };
  if (!b.node().has_input(kBias)) {
    weight_gradient();
    input_gradient();
    return;
  }
  input_gradient();
  weight_gradient();
  if (!b.needs_gradient(kBias)) return;
  const Tensor result = b.create_like("bias_gradient", b.node().input(kBias));
  b.launch(
      {.name = "linear.bias_gradient",
       .part = OperatorPart::kBiasGradient,
       .reads = {gradient},
       .creates = {result},
       .work = work_on(OperatorClass::kReduction, flops_per(1, gradient), {gradient}, {result})});
  b.set_input_gradient(kBias, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "linear",
     .summary = "x [..., k] times weight [n, k] transposed, plus bias; keeps x and the weight",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace linear_family

std::span<const OperatorFamily> linear_families() {
  return linear_family::kFamilies;
}

}  // namespace tidemark
