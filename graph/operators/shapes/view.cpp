// Changes of shape: views where torch makes views, copies where the strides demand them. Backward
// of a view is the opposite view of the gradient.
#include <algorithm>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace view_family_detail {

// Returns the attribute `shape`; one extent may be -1 and is inferred.
Shape wanted_shape(const Inference& inference) {
  Shape shape = shape_from(inference.attributes().list("shape"));
  const std::int64_t elements = inference.input(0).elements().count;
  std::int64_t known = 1;
  int open = -1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != -1) {
      known *= shape[axis];
      continue;
    }
    inference.require(open < 0,
                      [&] { return fmt::format("{} has more than one -1", to_string(shape)); });
    open = axis;
  }
  if (open >= 0 && known > 0) shape[open] = elements / known;
  inference.require(known > 0 && (open >= 0 ? known * shape[open] : known) == elements, [&] {
    return fmt::format("{} elements do not fill the shape {}", elements,
                       to_string(shape_from(inference.attributes().list("shape"))));
  });
  return shape;
}

void infer_view(Inference& inference) {
  const Tensor& x = inference.input(0);
  const Shape shape = wanted_shape(inference);
  Strides strides;
  inference.require(view_strides(x.shape, x.strides, shape, strides), [&] {
    return fmt::format("its strides {} do not allow a view as {}: use reshape",
                       to_string(x.strides), to_string(shape));
  });
  inference.view(0, shape, strides);
}

void infer_reshape(Inference& inference) {
  const Tensor& x = inference.input(0);
  const Shape shape = wanted_shape(inference);
  Strides strides;
  if (view_strides(x.shape, x.strides, shape, strides)) {
    inference.view(0, shape, strides);
  } else {
    inference.create(shape, x.dtype);
  }
}

void infer_contiguous(Inference& inference) {
  const Tensor& x = inference.input(0);
  if (x.is_contiguous()) {
    inference.view(0, x.shape, x.strides);
  } else {
    inference.create(x.shape, x.dtype);
  }
}

ForwardKernel forward_copy(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 0)};
}

void backward_reshape(BackwardBuilder& b) {
  b.set_input_gradient(0, reshaped(b, b.output_gradient(), b.node().input(0).shape));
}

void infer_transpose(Inference& inference) {
  Tensor x = inference.input(0);
  const int a =
      checked_axis(inference, inference.attributes().integer("axis_a", -2), x.shape.rank());
  const int b =
      checked_axis(inference, inference.attributes().integer("axis_b", -1), x.shape.rank());
  std::swap(x.shape[a], x.shape[b]);
  std::swap(x.strides[a], x.strides[b]);
  inference.view(0, x.shape, x.strides);
}

void backward_transpose(BackwardBuilder& b) {
  Tensor gradient = b.output_gradient();
  const int first = static_cast<int>(b.node().attributes().integer("axis_a", -2));
  const int second = static_cast<int>(b.node().attributes().integer("axis_b", -1));
  std::swap(gradient.shape[first], gradient.shape[second]);
  std::swap(gradient.strides[first], gradient.strides[second]);
  b.set_input_gradient(0, gradient);
}

void infer_permute(Inference& inference) {
  const Tensor& x = inference.input(0);
  const std::vector<std::int64_t> axes = inference.attributes().list("axes");
  std::vector<std::int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  bool complete = static_cast<int>(axes.size()) == x.shape.rank();
  for (std::size_t i = 0; complete && i < sorted.size(); ++i) {
    complete = sorted[i] == static_cast<std::int64_t>(i);
  }
  inference.require(complete, "axes must name each axis of the input once, counted from 0");
  Shape shape;
  Strides strides;
  for (std::int64_t axis : axes) {
    shape.push_back(x.shape[static_cast<int>(axis)]);
    strides.push_back(x.strides[static_cast<int>(axis)]);
  }
  inference.view(0, shape, strides);
}

void backward_permute(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  Tensor result = gradient;
  int from = 0;
  for (std::int64_t axis : b.node().attributes().list("axes")) {
    result.shape[static_cast<int>(axis)] = gradient.shape[from];
    result.strides[static_cast<int>(axis)] = gradient.strides[from];
    ++from;
  }
  b.set_input_gradient(0, result);
}

// Axes of extent 1 repeat without a copy; -1 keeps an axis; new axes come first.
void infer_expand(Inference& inference) {
  const Tensor& x = inference.input(0);
  Shape shape = shape_from(inference.attributes().list("shape"));
  inference.require(shape.rank() >= x.shape.rank(), "expand cannot drop axes");
  Strides strides = shape;
  const int added = shape.rank() - x.shape.rank();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t old = axis < added ? 1 : x.shape[axis - added];
    if (shape[axis] == -1) shape[axis] = old;
    inference.require(old == shape[axis] || old == 1, [&] {
      return fmt::format("axis {} cannot grow from {} to {}", axis, old, shape[axis]);
    });
    const bool repeats = axis < added || old != shape[axis];
    strides[axis] = repeats ? 0 : x.strides[axis - added];
  }
  inference.view(0, shape, strides);
}

void backward_expand(BackwardBuilder& b) {
  set_fitted_gradient(b, 0, b.output_gradient());
}

// The part of a tensor that a view of it shows, by its own shape and strides.
void infer_as_strided(Inference& inference) {
  const Shape shape = shape_from(inference.attributes().list("shape"));
  const Strides strides = shape_from(inference.attributes().list("strides"));
  inference.require(
      shape.rank() == strides.rank() && element_count(shape) <= inference.input(0).elements(),
      "shape and strides leave the memory of its input");
  inference.view(0, shape, strides);
}

// as_strided_backward: zeros of the input's size, then a copy of the part.
void backward_as_strided(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = create_dense(b, "input_gradient", b.node().input(0));
  Work work = work_on(OperatorClass::kMemset, Flops(0), {gradient}, {result, gradient});
  work.launches = 2;
  b.launch({.name = "as_strided.backward", .reads = {gradient}, .creates = {result}, .work = work});
  b.set_input_gradient(0, result);
}

// Tensor.detach(): the same memory, outside the autograd graph.
void infer_detach(Inference& inference) {
  inference.view(0, inference.input(0).shape, inference.input(0).strides);
  inference.follow_gradient(false);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "detach",
     .summary = "the same memory, through which no gradient flows",
     .infer = infer_detach,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = no_backward},
    {.name = "view",
     .summary = "another shape of the same memory; fails where the strides do not allow it",
     .infer = infer_view,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = backward_reshape},
    {.name = "reshape",
     .summary = "another shape; copies where the strides demand it",
     .infer = infer_reshape,
     .forward = forward_copy,
     .save = save_nothing,
     .backward = backward_reshape},
    {.name = "contiguous",
     .summary = "row-major order; copies unless it already is",
     .infer = infer_contiguous,
     .forward = forward_copy,
     .save = save_nothing,
     .backward = pass_gradient},
    {.name = "transpose",
     .summary = "swaps axis_a and axis_b",
     .infer = infer_transpose,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = backward_transpose},
    {.name = "permute",
     .summary = "reorders axes",
     .infer = infer_permute,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = backward_permute},
    {.name = "as_strided",
     .summary = "a part of a tensor by shape and strides, as a view",
     .infer = infer_as_strided,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = backward_as_strided},
    {.name = "expand",
     .summary = "repeats axes of extent 1 without a copy",
     .infer = infer_expand,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = backward_expand},
};

}  // namespace view_family_detail

std::span<const OperatorFamily> view_families() {
  return view_family_detail::kFamilies;
}

}  // namespace tidemark
