// Sums, products and conversions of tensors, element by element, with broadcasting.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace {

void infer_binary(Inference& inference) {
  const Tensor& a = inference.input(0);
  const Tensor& b = inference.input(1);
  const Shape shape = broadcast_shapes(inference, a.shape, b.shape);
  if (inference.attributes().flag("in_place")) {
    inference.require(shape == a.shape, "the first operand, changed in place, is the smaller one");
    inference.in_place(0);
    return;
  }
  DType dtype = promote(a.dtype, b.dtype);
  if (is_floating(a.dtype) != is_floating(b.dtype))
    dtype = is_floating(a.dtype) ? a.dtype : b.dtype;
  create_elementwise(inference, shape, dtype);
}

void infer_product(Inference& inference) {
  inference.require(!inference.attributes().flag("in_place"), "has no form that works in place");
  infer_binary(inference);
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

void save_product(SavedSet& saved) {
  if (saved.node().needs_gradient(1)) saved.input(0);
  if (saved.node().needs_gradient(0)) saved.input(1);
}

// MulBackward makes both products, other before self; the engine then sums over broadcast axes.
void backward_product(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  Tensor products[2];
  for (std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (!b.needs_gradient(i)) continue;
    products[i] = create_dense(b, "product_gradient", gradient);
    b.launch_elementwise("mul.backward", {gradient, b.node().input(1 - i)}, products[i]);
  }
  for (std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (b.needs_gradient(i)) set_fitted_gradient(b, i, products[i]);
  }
}

void infer_unary(Inference& inference) {
  const Tensor& x = inference.input(0);
  create_elementwise(inference, x.shape, x.dtype);
}

// The scalar is a tensor in 1.13, and MulBackward keeps it.
void save_scale(SavedSet& saved) {
  if (saved.node().rules().saves_python_scalars) saved.extra("scalar", {}, DType::kFloat64);
}

void backward_scale(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = create_dense(b, "input_gradient", gradient);
  b.launch_elementwise("scale.backward", {gradient}, result);
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
     .infer = infer_product,
     .forward = forward,
     .save = save_product,
     .backward = backward_product},
    {.name = "scale",
     .summary = "times a Python scalar",
     .infer = infer_unary,
     .forward = forward,
     .save = save_scale,
     .backward = backward_scale},
    {.name = "add_scalar",
     .summary = "plus a Python scalar; keeps nothing",
     .infer = infer_unary,
     .forward = forward,
     .save = save_nothing,
     .backward = pass_gradient},
    {.name = "cast",
     .summary = "converts to another element type; keeps nothing",
     .infer = infer_cast,
     .forward = forward_copy,
     .save = save_nothing,
     .backward = backward_cast},
};

}  // namespace

std::span<const OperatorFamily> elementwise_families() {
  return kFamilies;
}

}  // namespace tidemark
