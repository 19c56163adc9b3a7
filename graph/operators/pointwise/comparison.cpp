// Selections between tensors: maximum, minimum, where, and the comparisons that make bool masks.
#include <array>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace comparison_family_detail {

Shape common_shape(const Inference& inference) {
  Shape shape = inference.input(0).shape;
  for (std::size_t i = 1; i < inference.input_count(); ++i) {
    if (inference.has_input(i)) {
      shape = broadcast_shapes(inference, shape, inference.input(i).shape);
    }
  }
  return shape;
}

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 1)};
}

void infer_extremum(Inference& inference) {
  create_elementwise(inference, common_shape(inference),
                     result_type(inference.input(0), inference.input(1)));
}

void save_both(SavedSet& saved) {
  saved.input(0);
  saved.input(1);
}

// where(self == other, grad / 2, grad).masked_fill(self < other, 0) for self, likewise for other:
// half of the gradient and two masks live beside the result.
void backward_extremum(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Bytes masks = bytes_of(DType::kBool, Elements(2 * gradient.elements().count));
  std::array<Tensor, 2> results;
  for (std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (!b.needs_gradient(i)) continue;
    results[i] = create_dense(b, "selected_gradient", gradient);
    b.launch_elementwise("maximum.backward", {gradient, b.node().input(0), b.node().input(1)},
                         results[i], OperatorClass::kElementwise, 4, Bytes(0),
                         gradient.bytes() + masks);
  }
  for (std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (b.needs_gradient(i)) set_fitted_gradient(b, i, results[i]);
  }
}

constexpr std::size_t kCondition = 0;  // bool
constexpr std::size_t kThen = 1;
constexpr std::size_t kElse = 2;  // absent: a constant

void infer_where(Inference& inference) {
  const Tensor& condition = inference.input(kCondition);
  inference.require(condition.dtype == DType::kBool, [&] {
    return fmt::format("its condition is {}, not bool", name_of(condition.dtype));
  });
  DType dtype = inference.input(kThen).dtype;
  if (inference.has_input(kElse)) dtype = promote(dtype, inference.input(kElse).dtype);
  create_elementwise(inference, common_shape(inference), dtype);
}

void save_condition(SavedSet& saved) {
  saved.input(kCondition);
}

// A constant is a tensor of one element on a CPU.
ForwardKernel forward_where(const NodeView& node) {
  ForwardKernel kernel = forward(node);
  if (!node.has_input(kElse)) {
    kernel.workspace = scalar_operand(node.rules(), node.output().dtype).converted;
  }
  return kernel;
}

// where(condition, grad, 0) and where(condition, 0, grad).
void backward_where(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  std::array<Tensor, 3> results;
  for (std::size_t i : {kThen, kElse}) {
    if (!b.needs_gradient(i)) continue;
    results.at(i) = create_dense(b, "selected_gradient", gradient);
    b.launch_elementwise("where.backward", {gradient, b.node().input(kCondition)}, results.at(i),
                         OperatorClass::kElementwise, 1, Bytes(0),
                         scalar_operand(b.node().rules(), gradient.dtype).converted);
  }
  set_fitted_gradient(b, kThen, results[kThen]);
  set_fitted_gradient(b, kElse, results[kElse]);
}

void infer_comparison(Inference& inference) {
  inference.create(common_shape(inference), DType::kBool);
}

constexpr OperatorFamily comparison(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .infer = infer_comparison,
          .forward = forward,
          .save = save_nothing,
          .backward = no_backward};
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "maximum",
     .summary = "the larger of two tensors with broadcasting; keeps both",
     .infer = infer_extremum,
     .forward = forward,
     .save = save_both,
     .backward = backward_extremum},
    {.name = "minimum",
     .summary = "the smaller of two tensors with broadcasting; keeps both",
     .infer = infer_extremum,
     .forward = forward,
     .save = save_both,
     .backward = backward_extremum},
    {.name = "where",
     .summary = "a where a bool mask holds, elsewhere b or a constant; keeps the mask",
     .infer = infer_where,
     .forward = forward_where,
     .save = save_condition,
     .backward = backward_where},
    comparison("eq", "a == b, or a constant; bool"),
    comparison("ne", "a != b, or a constant; bool"),
    comparison("lt", "a < b, or a constant; bool"),
    comparison("le", "a <= b, or a constant; bool"),
    comparison("gt", "a > b, or a constant; bool"),
    comparison("ge", "a >= b, or a constant; bool"),
    comparison("logical_and", "both hold; bool"),
    comparison("logical_or", "one of two holds; bool"),
    comparison("logical_xor", "one of two holds, not both; bool"),
    comparison("logical_not", "does not hold; bool"),
};

}  // namespace comparison_family_detail

std::span<const OperatorFamily> comparison_families() {
  return comparison_family_detail::kFamilies;
}

}  // namespace tidemark
