// torch.nn.functional.linear and matrix products with a 2-D right operand (addmm, mm).
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/products/linear_product.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace linear_family_detail {

constexpr std::string_view kBiasGradient = "linear.bias_gradient";

void infer(Inference& inference) {
  infer_linear(inference);
  const Tensor& x = inference.input(kLinearX);
  const Tensor& weight = inference.input(kLinearWeight);
  inference.require(x.dtype == weight.dtype, [&] {
    return fmt::format("the input is {}, but the weight is {}: cast one of them", name_of(x.dtype),
                       name_of(weight.dtype));
  });
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
  const Tensor& x = node.input(kLinearX);
  const auto [m, n, k] = linear_extent(node);
  return !view_strides(x.shape, x.strides, {m, k}, strides);
}

Form form_of(const NodeView& node) {
  const Tensor& x = node.input(kLinearX);
  const FrameworkRules& rules = node.rules();
  if (x.shape.rank() > 2 && has_uneven_rows(node) && rules.multiplies_transposed_rows_in_batches) {
    return Form::kBatches;
  }
  if (!node.has_input(kLinearBias) || x.shape.rank() <= 2 || rules.linear_flattens_any_rank) {
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
  const auto [m, n, k] = linear_extent(node);
  ForwardKernel kernel{.work = matmul_work(node.output().dtype, m, n, k, 1)};
  if (node.has_input(kLinearBias)) kernel.work.read += node.input(kLinearBias).bytes();
  if (node.attributes().flag("two_of_four")) {
    kernel.work.two_of_four = true;
    kernel.work.read -= Bytes(node.input(kLinearWeight).bytes().count / 16 * 7);
  }
  if (copies_rows(node) && !node.needs_gradient(kLinearWeight)) {
    kernel.temporary = node.input(kLinearX).bytes();
  }
  return kernel;
}

// A frozen weight does not need the input, and an input without gradient not the weight.
void save(SavedSet& saved) {
  const NodeView& node = saved.node();
  if (node.needs_gradient(kLinearWeight)) {
    if (copies_rows(node)) {
      saved.extra("rows", node.input(kLinearX).shape, node.input(kLinearX).dtype);
    } else {
      saved.input(kLinearX);
    }
  }
  if (node.needs_gradient(kLinearX)) saved.input(kLinearWeight);
}

Tensor launch_input_gradient(BackwardBuilder& b, const Tensor& gradient) {
  if (!b.needs_gradient(kLinearX)) return {};
  const auto [m, n, k] = linear_extent(b.node());
  const Tensor& x = b.node().input(kLinearX);
  const Tensor result = b.create("input_gradient", x.shape, x.dtype);
  b.launch({.name = "linear.input_gradient",
            .part = OperatorPart::kInputGradient,
            .reads = {gradient, b.node().input(kLinearWeight)},
            .creates = {result},
            .work = matmul_work(x.dtype, m, k, n, 1)});
  return result;
}

Tensor launch_weight_gradient(BackwardBuilder& b, const Tensor& gradient) {
  if (!b.needs_gradient(kLinearWeight)) return {};
  const auto [m, n, k] = linear_extent(b.node());
  const Tensor& weight = b.node().input(kLinearWeight);
  const Tensor rows = copies_rows(b.node()) ? b.saved("rows") : b.node().input(kLinearX);
  const Tensor result = b.create("weight_gradient", weight.shape, weight.dtype);
  b.launch({.name = "linear.weight_gradient",
            .part = OperatorPart::kWeightGradient,
            .reads = {gradient, rows},
            .creates = {result},
            .work = matmul_work(weight.dtype, n, k, m, 1)});
  return result;
}

// BmmBackward of [batch, m, k] with the expanded weight [batch, k, n]; ExpandBackward sums the
// weight's gradients of the batch, and their sum is transposed.
void launch_batches(BackwardBuilder& b, const Tensor& gradient) {
  const auto [m, n, k] = linear_extent(b.node());
  const Tensor& x = b.node().input(kLinearX);
  const Tensor& weight = b.node().input(kLinearWeight);
  const std::int64_t batch = x.shape[0];
  Tensor by_batch;
  if (b.needs_gradient(kLinearWeight)) {
    by_batch = b.create("weight_gradients", {batch, k, n}, weight.dtype);
    b.launch({.name = "linear.weight_gradients",
              .part = OperatorPart::kWeightGradient,
              .reads = {gradient, x},
              .creates = {by_batch},
              .work = matmul_work(weight.dtype, k, n, m / batch, batch)});
  }
  b.set_input_gradient(kLinearX, launch_input_gradient(b, gradient));
  b.release_incoming_gradient();
  b.release_saved();
  if (!b.needs_gradient(kLinearWeight)) return;
  Tensor sum = b.sum_to(by_batch, {k, n});
  if (!b.node().attributes().flag("transposed_weight")) {
    std::swap(sum.shape[0], sum.shape[1]);
    std::swap(sum.strides[0], sum.strides[1]);
  }
  b.set_input_gradient(kLinearWeight, sum);
}

// AddmmBackward computes mat1, mat2, then the bias; MmBackward, without a bias, mat2 before self.
// The rows of a strided gradient are copied by the node of the view that ends the forward. The
// engine hands on the gradient of the bias first; that of the weight passes its transposition, a
// node of its own. Megatron's layers start with the gradient of the input, which they communicate.
void backward(BackwardBuilder& b) {
  const auto [m, n, k] = linear_extent(b.node());
  const Form form = form_of(b.node());
  const Tensor incoming = b.output_gradient();
  if (form != Form::kAddmm) launch_bias_gradient(b, kBiasGradient, incoming);
  if (form == Form::kBatches) return launch_batches(b, incoming);
  const Tensor gradient = reshaped(b, incoming, {m, n});
  if (gradient.storage != incoming.storage) b.release_incoming_gradient();
  Tensor of_input;
  Tensor of_weight;
  const bool weight_first = form == Form::kProductThenBias || !b.node().has_input(kLinearBias);
  if (weight_first && !b.node().attributes().flag("input_gradient_first")) {
    of_weight = launch_weight_gradient(b, gradient);
    of_input = launch_input_gradient(b, gradient);
  } else {
    of_input = launch_input_gradient(b, gradient);
    of_weight = launch_weight_gradient(b, gradient);
    launch_bias_gradient(b, kBiasGradient, gradient);
  }
  b.set_input_gradient(kLinearX, of_input);
  if (!b.node().attributes().flag("transposed_weight")) b.hand_on_gradients();
  b.set_input_gradient(kLinearWeight, of_weight);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "linear",
     .summary = "x [..., k] times weight [n, k] transposed, plus bias; keeps x and the weight",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace linear_family_detail

std::span<const OperatorFamily> linear_families() {
  return linear_family_detail::kFamilies;
}

}  // namespace tidemark
