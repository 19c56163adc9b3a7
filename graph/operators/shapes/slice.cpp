// Parts of tensors along one axis: narrow, split, cat and unfold_axis.
#include <algorithm>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace slice_family_detail {

int axis_of(const NodeView& node) {
  const auto axis = static_cast<int>(node.attributes().integer("axis", 0));
  return axis < 0 ? axis + node.input(0).shape.rank() : axis;
}

// Takes every `step`-th element. With drop_axis the axis of length 1 disappears: x[:, 0].
void infer_narrow(Inference& inference) {
  const Tensor& x = inference.input(0);
  const Attributes& attributes = inference.attributes();
  const int axis = checked_axis(inference, attributes.integer("axis", 0), x.shape.rank());
  const std::int64_t start = attributes.integer("start", 0);
  const std::int64_t length = attributes.integer("length", 1);
  const std::int64_t step = attributes.integer("step", 1);
  inference.require(step >= 1, [&] { return fmt::format("a step of {} is not simulated", step); });
  const bool inside = start >= 0 && start < x.shape[axis] && length >= 1 &&
                      (length == 1 || length - 1 <= (x.shape[axis] - 1 - start) / step);
  inference.require(inside, [&] {
    return fmt::format(
        "{} elements from {} on, in steps of {}, are not inside "
        "axis {} of extent {}",
        length, start, step, axis, x.shape[axis]);
  });
  const bool drop = attributes.flag("drop_axis");
  inference.require(!drop || length == 1, "only an axis of length 1 can be dropped");
  Shape shape;
  Strides strides;
  for (int i = 0; i < x.shape.rank(); ++i) {
    if (i == axis && drop) continue;
    shape.push_back(i == axis ? length : x.shape[i]);
    strides.push_back(i == axis ? x.strides[i] * step : x.strides[i]);
  }
  inference.view(0, shape, strides);
}

// slice_backward: zeros of the input's size, then a copy of the part.
void backward_narrow(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const bool whole = gradient.shape == b.node().input(0).shape;
  if (whole && !b.node().rules().whole_slices_are_operators) {
    return b.set_input_gradient(0, gradient);
  }
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  Work work = work_on(OperatorClass::kMemset, Flops(0), {gradient}, {result, gradient});
  work.launches = 2;
  b.launch({.name = "narrow.backward", .reads = {gradient}, .creates = {result}, .work = work});
  b.set_input_gradient(0, result);
}

// Makes parts of `size` along an axis, the last one smaller if need be; or of the listed `sizes`.
void infer_split(Inference& inference) {
  const Tensor x = inference.input(0);
  const Attributes& attributes = inference.attributes();
  const int axis = checked_axis(inference, attributes.integer("axis", 0), x.shape.rank());
  std::vector<std::int64_t> sizes = attributes.list("sizes");
  if (sizes.empty()) {
    const std::int64_t size = attributes.integer("size", 1);
    inference.require(size >= 1, "size starts at 1");
    for (std::int64_t at = 0; at < x.shape[axis]; at += size) {
      sizes.push_back(std::min(size, x.shape[axis] - at));
    }
  }
  std::int64_t total = 0;
  for (std::int64_t size : sizes) {
    inference.require(size >= 1 && size <= x.shape[axis], [&] {
      return fmt::format("a part of {} is not possible, axis {} has {}", size, axis, x.shape[axis]);
    });
    total += size;
  }
  inference.require(total == x.shape[axis], [&] {
    return fmt::format("the parts sum to {}, axis {} has {}", total, axis, x.shape[axis]);
  });
  for (std::int64_t size : sizes) {
    Shape shape = x.shape;
    shape[axis] = size;
    inference.view(0, shape, x.strides);
  }
}

// SplitBackward concatenates the gradients of the parts. It first makes zeros for each part that
// has none (aten::split_with_sizes_backward); UnbindBackward expands a single one.
void backward_split(BackwardBuilder& b) {
  const Graph& graph = b.node().graph();
  const std::vector<TensorId>& parts = graph.nodes[b.node().id()].outputs;
  const bool unbound = b.node().attributes().flag("unbind");
  BackwardBuilder::Kernel kernel{
      .name = "split.backward",
      .work = {.op_class = OperatorClass::kElementwise, .dtype = b.node().input(0).dtype}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (b.has_output_gradient(i)) {
      kernel.reads.push_back(b.output_gradient(i));
    } else {
      const Tensor& part = graph.tensors[parts[i]];
      const Tensor zeros = b.create_temporary("zeros", unbound ? Shape{} : part.shape, part.dtype);
      b.launch({.name = "split.zeros",
                .creates = {zeros},
                .work = work_on(OperatorClass::kMemset, Flops(0), {}, {zeros})});
      kernel.reads.push_back(zeros);
    }
    kernel.work.read += traffic(kernel.reads.back());
  }
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  kernel.creates = {result};
  kernel.work.written = result.bytes();
  b.launch(kernel);
  b.set_input_gradient(0, result);
}

// The result is channels_last where all parts are (PyTorch's cat_compute_output_memory_format).
void infer_cat(Inference& inference) {
  const Tensor& first = inference.input(0);
  const int axis =
      checked_axis(inference, inference.attributes().integer("axis", 0), first.shape.rank());
  Shape shape = first.shape;
  shape[axis] = 0;
  DType dtype = first.dtype;
  bool channels_last = true;
  for (std::size_t i = 0; i < inference.input_count(); ++i) {
    const Tensor& part = inference.input(i);
    channels_last = channels_last && part.is_channels_last();
    Shape other = part.shape;
    inference.require(other.rank() == shape.rank(), "the parts differ in the number of axes");
    shape[axis] += other[axis];
    other[axis] = first.shape[axis];
    inference.require(other == first.shape,
                      [&] { return fmt::format("part {} differs outside axis {}", i, axis); });
    dtype = promote(dtype, part.dtype);
  }
  inference.create(shape, dtype,
                   channels_last ? channels_last_strides(shape) : contiguous_strides(shape));
}

ForwardKernel forward_cat(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 0)};
}

// Each part gets a view of the incoming gradient.
void backward_cat(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const int axis = axis_of(b.node());
  for (std::size_t i = 0; i < b.node().input_count(); ++i) {
    if (!b.needs_gradient(i)) continue;
    Tensor part = gradient;
    part.shape[axis] = b.node().input(i).shape[axis];
    set_fitted_gradient(b, i, part);
  }
}

// Windows of `size` elements, one every `step`: the axis counts them, and a new last axis their
// elements, which windows that overlap share.
void infer_unfold(Inference& inference) {
  const Tensor& x = inference.input(0);
  const Attributes& attributes = inference.attributes();
  const int axis = checked_axis(inference, attributes.integer("axis", 0), x.shape.rank());
  const std::int64_t size = attributes.integer("size", 1);
  const std::int64_t step = attributes.integer("step", 1);
  inference.require(size >= 1 && size <= x.shape[axis] && step >= 1, [&] {
    return fmt::format("windows of {}, one every {}, are not inside axis {} of extent {}", size,
                       step, axis, x.shape[axis]);
  });
  Shape shape = x.shape;
  Strides strides = x.strides;
  shape[axis] = (x.shape[axis] - size) / step + 1;
  if (shape[axis] > 1) strides[axis] *= step;
  shape.push_back(size);
  strides.push_back(x.strides[axis]);
  inference.view(0, shape, strides);
}

// unfold_backward: zeros of the input's size, to which the windows are added.
void backward_unfold(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  Work work = work_on(OperatorClass::kElementwise, flops_per(1, gradient), {gradient}, {result});
  work.launches = 2;
  b.launch(
      {.name = "unfold_axis.backward", .reads = {gradient}, .creates = {result}, .work = work});
  b.set_input_gradient(0, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "unfold_axis",
     .summary = "windows of `size` along an axis, one every `step`, as a view: x.unfold",
     .infer = infer_unfold,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = backward_unfold},
    {.name = "narrow",
     .summary = "`length` elements of an axis from `start` on, every `step`-th, as a view",
     .infer = infer_narrow,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = backward_narrow},
    {.name = "split",
     .summary = "parts of an axis, as views",
     .infer = infer_split,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = backward_split},
    {.name = "cat",
     .summary = "joins tensors along an axis; keeps nothing",
     .infer = infer_cat,
     .forward = forward_cat,
     .save = save_nothing,
     .backward = backward_cat},
};

}  // namespace slice_family_detail

std::span<const OperatorFamily> slice_families() {
  return slice_family_detail::kFamilies;
}

}  // namespace tidemark
