// torch.nn.functional.linear and matrix products with a 2-D right operand (addmm, mm).
#include <utility>

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

// The operators that F.linear runs.
enum class Form {
  kAddmm,            // addmm; without a bias mm
  kProductThenBias,  // mm, then the bias is added in place
  kBatches,          // bmm with the expanded weight, then the bias
};

// Whether rows that have no even spacing in memory are left to this operator.
bool has_uneven_rows(const NodeView& node) {
  Strides strides;
  const Tensor& x = node.input(kX);
  const auto [m, n, k] = extent_of(node);
  return !view_strides(x.shape, x.strides, {m, k}, strides);
}

Form form_of(const NodeView& node) {
  const Tensor& x = node.input(kX);
  const FrameworkRules& rules = node.rules();
  if (x.shape.rank() > 2 && has_uneven_rows(node) && rules.multiplies_transposed_rows_in_batches) {
    return Form::kBatches;
  }
  if (!node.has_input(kBias) || x.shape.rank() <= 2 || rules.linear_flattens_any_rank) {
    return Form::kAddmm;
  }
  const bool flattens =
      x.shape.rank() == 3 && x.is_contiguous() && !node.attributes().flag("copied_rows");
  return flattens ? Form::kAddmm : Form::kProductThenBias;
}

bool copies_rows(const NodeView& node) {
  return form_of(node) != Form::kBatches && has_uneven_rows(node);
}

ForwardKernel forward(const NodeView& node) {
  const auto [m, n, k] = extent_of(node);
  ForwardKernel kernel{.work = matmul_work(node.output().dtype, m, n, k, 1)};
  if (node.has_input(kBias)) kernel.work.read += node.input(kBias).bytes();
  if (copies_rows(node) && !node.needs_gradient(kWeight)) {
    kernel.temporary = node.input(kX).bytes();
  }
  return kernel;
}

// A frozen weight does not need the input, and an input without gradient not the weight.
void save(SavedSet& saved) {
  const NodeView& node = saved.node();
  if (node.needs_gradient(kWeight)) {
    if (copies_rows(node)) {
      saved.extra("rows", node.input(kX).shape, node.input(kX).dtype);
    } else {
      saved.input(kX);
    }
  }
  if (node.needs_gradient(kX)) saved.input(kWeight);
}

Tensor launch_input_gradient(BackwardBuilder& b, const Tensor& gradient) {
  if (!b.needs_gradient(kX)) return {};
  const auto [m, n, k] = extent_of(b.node());
  const Tensor& x = b.node().input(kX);
  const Tensor result = b.create("input_gradient", x.shape, x.dtype);
  b.launch({.name = "linear.input_gradient",
            .part = OperatorPart::kInputGradient,
            .reads = {gradient, b.node().input(kWeight)},
            .creates = {result},
            .work = matmul_work(x.dtype, m, k, n, 1)});
  return result;
}

Tensor launch_weight_gradient(BackwardBuilder& b, const Tensor& gradient) {
  if (!b.needs_gradient(kWeight)) return {};
  const auto [m, n, k] = extent_of(b.node());
  const Tensor& weight = b.node().input(kWeight);
  const Tensor rows = copies_rows(b.node()) ? b.saved("rows") : b.node().input(kX);
  const Tensor result = b.create("weight_gradient", weight.shape, weight.dtype);
  b.launch({.name = "linear.weight_gradient",
            .part = OperatorPart::kWeightGradient,
            .reads = {gradient, rows},
            .creates = {result},
            .work = matmul_work(weight.dtype, n, k, m, 1)});
  return result;
}

void launch_bias_gradient(BackwardBuilder& b, const Tensor& gradient) {
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

// BmmBackward of [batch, m, k] with the expanded weight [batch, k, n]; ExpandBackward sums the
// weight's gradients of the batch, and their sum is transposed.
void launch_batches(BackwardBuilder& b, const Tensor& gradient) {
  const auto [m, n, k] = extent_of(b.node());
  const Tensor& x = b.node().input(kX);
  const Tensor& weight = b.node().input(kWeight);
  const std::int64_t batch = x.shape[0];
  Tensor by_batch;
  if (b.needs_gradient(kWeight)) {
    by_batch = b.create("weight_gradients", {batch, k, n}, weight.dtype);
    b.launch({.name = "linear.weight_gradients",
              .part = OperatorPart::kWeightGradient,
              .reads = {gradient, x},
              .creates = {by_batch},
              .work = matmul_work(weight.dtype, k, n, m / batch, batch)});
  }
  b.set_input_gradient(kX, launch_input_gradient(b, gradient));
  b.release_incoming_gradient();
  b.release_saved();
  if (!b.needs_gradient(kWeight)) return;
  Tensor sum = b.sum_to(by_batch, {k, n});
  if (!b.node().attributes().flag("transposed_weight")) {
    std::swap(sum.shape[0], sum.shape[1]);
    std::swap(sum.strides[0], sum.strides[1]);
  }
  b.set_input_gradient(kWeight, sum);
}

// AddmmBackward computes mat1, mat2, then the bias; MmBackward, without a bias, mat2 before self.
// The rows of a strided gradient are copied by the node of the view that ends the forward. The
// engine hands on the gradient of the bias first; that of the weight passes its transposition, a
// node of its own. Megatron's layers start with the gradient of the input, which they communicate.
void backward(BackwardBuilder& b) {
  const auto [m, n, k] = extent_of(b.node());
  const Form form = form_of(b.node());
  const Tensor incoming = b.output_gradient();
  if (form != Form::kAddmm) launch_bias_gradient(b, incoming);
  if (form == Form::kBatches) return launch_batches(b, incoming);
  const Tensor gradient = reshaped(b, incoming, {m, n});
  if (gradient.storage != incoming.storage) b.release_incoming_gradient();
  Tensor of_input;
  Tensor of_weight;
  const bool weight_first = form == Form::kProductThenBias || !b.node().has_input(kBias);
  if (weight_first && !b.node().attributes().flag("input_gradient_first")) {
    of_weight = launch_weight_gradient(b, gradient);
    of_input = launch_input_gradient(b, gradient);
  } else {
    of_input = launch_input_gradient(b, gradient);
    of_weight = launch_weight_gradient(b, gradient);
    launch_bias_gradient(b, gradient);
  }
  b.set_input_gradient(kX, of_input);
  b.set_input_gradient(kWeight, of_weight);
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
