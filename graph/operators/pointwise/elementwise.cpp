// Sums, products and conversions of tensors, element by element, with broadcasting.
#include <utility>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace elementwise_family_detail {

void infer_binary(Inference& inference) {
  const Tensor& a = inference.input(0);
  const Tensor& b = inference.input(1);
  const Shape shape = broadcast_shapes(inference, a.shape, b.shape);
  if (inference.attributes().flag("in_place")) {
    inference.require(shape == a.shape, "the first operand, changed in place, is the smaller one");
    inference.in_place(0);
    return;
  }
  create_elementwise(inference, shape, result_type(a, b));
}

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 1)};
}

// Both operands receive the incoming gradient itself.
void backward_add(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  set_fitted_gradient(b, 0, gradient);
  set_fitted_gradient(b, 1, gradient);
}

// The difference negates the gradient of its right operand.
void backward_sub(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  Tensor negative;
  if (b.needs_gradient(1)) {
    negative = create_dense(b, "negative_gradient", gradient);
    b.launch_elementwise("sub.backward", {gradient}, negative);
  }
  set_fitted_gradient(b, 0, gradient);
  set_fitted_gradient(b, 1, negative);
}

// An operand that is overwritten is cloned before (torch's original_self).
void save_left(SavedSet& saved) {
  if (saved.node().is_in_place()) {
    saved.extra("left_clone", saved.node().input(0).shape, saved.node().input(0).dtype);
  } else {
    saved.input(0);
  }
}

Tensor saved_left(const BackwardBuilder& b) {
  return b.node().is_in_place() ? b.saved("left_clone") : b.node().input(0);
}

void save_product(SavedSet& saved) {
  if (saved.node().needs_gradient(1)) save_left(saved);
  if (saved.node().needs_gradient(0)) saved.input(1);
}

// MulBackward makes both products, other before self; the engine then sums over broadcast axes.
void backward_product(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  Tensor products[2];
  for (std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (!b.needs_gradient(i)) continue;
    products[i] = create_dense(b, "product_gradient", gradient);
    const Tensor partner = i == 1 ? saved_left(b) : b.node().input(1);
    b.launch_elementwise("mul.backward", {gradient, partner}, products[i]);
  }
  set_fitted_gradient(b, 0, products[0]);
  set_fitted_gradient(b, 1, products[1]);
}

// The divisor is kept in any case, the dividend for the divisor's gradient.
void save_quotient(SavedSet& saved) {
  if (saved.node().needs_gradient(1)) save_left(saved);
  saved.input(1);
}

// grad / other, and before it -grad * ((self / other) / other): three tensors beside the result.
void backward_quotient(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor& divisor = b.node().input(1);
  Tensor quotients[2];
  for (std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (!b.needs_gradient(i)) continue;
    quotients[i] = create_dense(b, "quotient_gradient", gradient);
    std::vector<Tensor> reads{gradient, divisor};
    if (i == 1) reads.push_back(saved_left(b));
    b.launch_elementwise("div.backward", reads, quotients[i], OperatorClass::kElementwise,
                         i == 1 ? 4 : 1, Bytes(0), gradient.bytes() * (i == 1 ? 3 : 0));
  }
  set_fitted_gradient(b, 0, quotients[0]);
  set_fitted_gradient(b, 1, quotients[1]);
}

void infer_unary(Inference& inference) {
  const Tensor& x = inference.input(0);
  create_elementwise(inference, x.shape, x.dtype);
}

// The scalar is a tensor in 1.13, and MulBackward keeps it; where PyTorch's own C++ code scales
// (`inside_operator`), it is a number.
bool keeps_scalar(const NodeView& node) {
  return node.rules().saves_python_scalars && !node.attributes().flag("inside_operator");
}

// The kernel makes the scalar, unless it is kept, and converts it.
Bytes scalar_bytes(const NodeView& node, DType dtype) {
  const ScalarOperand scalar = scalar_operand(node.rules(), dtype);
  return keeps_scalar(node) ? scalar.converted : scalar.as_given + scalar.converted;
}

void save_scale(SavedSet& saved) {
  if (keeps_scalar(saved.node())) saved.extra("scalar", {}, DType::kFloat64);
}

ForwardKernel forward_scale(const NodeView& node) {
  ForwardKernel kernel = forward(node);
  const ScalarOperand scalar = scalar_operand(node.rules(), node.output().dtype);
  kernel.workspace = scalar.converted;
  if (!keeps_scalar(node) || !node.output().requires_grad) kernel.workspace += scalar.as_given;
  return kernel;
}

ForwardKernel forward_add_scalar(const NodeView& node) {
  ForwardKernel kernel = forward(node);
  kernel.workspace = scalar_temporaries(node.rules(), node.output().dtype);
  return kernel;
}

void backward_scale(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = create_dense(b, "input_gradient", gradient);
  std::vector<Tensor> reads{gradient};
  if (keeps_scalar(b.node())) reads.push_back(b.saved("scalar"));
  b.launch_elementwise("scale.backward", std::move(reads), result, OperatorClass::kElementwise, 1,
                       scalar_bytes(b.node(), result.dtype));
  b.set_input_gradient(0, result);
}

DType target_type(const Inference& inference) {
  const std::string wanted = inference.attributes().text("dtype");
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    if (name_of(static_cast<DType>(i)) == wanted) return static_cast<DType>(i);
  }
  inference.fail(fmt::format("'{}' is not an element type", wanted));
}

// A tensor that already has the type is returned as it is.
void infer_cast(Inference& inference) {
  const Tensor& x = inference.input(0);
  const DType dtype = target_type(inference);
  if (dtype == x.dtype) {
    inference.view(0, x.shape, x.strides);
  } else {
    create_elementwise(inference, x.shape, dtype);
  }
}

ForwardKernel forward_copy(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 0)};
}

void backward_cast(BackwardBuilder& b) {
  set_fitted_gradient(b, 0, b.output_gradient());
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "add",
     .summary = "a + b with broadcasting; keeps nothing",
     .infer = infer_binary,
     .forward = forward,
     .save = save_nothing,
     .backward = backward_add},
    {.name = "mul",
     .summary = "a b with broadcasting; keeps each operand whose partner needs a gradient",
     .infer = infer_binary,
     .forward = forward,
     .save = save_product,
     .backward = backward_product},
    {.name = "sub",
     .summary = "a - b with broadcasting; keeps nothing",
     .infer = infer_binary,
     .forward = forward,
     .save = save_nothing,
     .backward = backward_sub},
    {.name = "div",
     .summary = "a / b with broadcasting; keeps b, and a for the gradient of b",
     .infer = infer_binary,
     .forward = forward,
     .save = save_quotient,
     .backward = backward_quotient},
    {.name = "scale",
     .summary = "times or divided by a Python scalar",
     .infer = infer_unary,
     .forward = forward_scale,
     .save = save_scale,
     .backward = backward_scale},
    {.name = "add_scalar",
     .summary = "plus a Python scalar; keeps nothing",
     .infer = infer_unary,
     .forward = forward_add_scalar,
     .save = save_nothing,
     .backward = pass_gradient},
    {.name = "cast",
     .summary = "converts to another element type; keeps nothing",
     .infer = infer_cast,
     .forward = forward_copy,
     .save = save_nothing,
     .backward = backward_cast},
};

}  // namespace elementwise_family_detail

std::span<const OperatorFamily> elementwise_families() {
  return elementwise_family_detail::kFamilies;
}

}  // namespace tidemark
