// Elements chosen by int64 indices: index_select, advanced indexing along one axis, gather,
// index_add, index_copy, scatter_add, scatter, index_put, topk and sort. Backward adds into zeros
// of the input's size.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace indexing_family_detail {

constexpr std::size_t kX = 0;
constexpr std::size_t kIndex = 1;
constexpr std::size_t kSource = 2;

int axis_of(const Inference& inference, std::int64_t fallback) {
  return checked_axis(inference, inference.attributes().integer("axis", fallback),
                      inference.input(kX).shape.rank());
}

void require_indices(const Inference& inference) {
  const DType dtype = inference.input(kIndex).dtype;
  inference.require(dtype == DType::kInt64 || dtype == DType::kInt32,
                    [&] { return fmt::format("indices are {}, not int64", name_of(dtype)); });
}

// The kernel reads as many elements as it selects.
ForwardKernel forward_chosen(const NodeView& node) {
  const Tensor& out = node.output();
  const Tensor& index = node.input(kIndex);
  return {.work = work_on(OperatorClass::kEmbedding, Flops(0), {out, index}, {out})};
}

// Makes zeros of the input's size, into which the gradient of the selected elements is added.
void launch_scatter(BackwardBuilder& b, const Tensor& index) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = b.create_like("input_gradient", b.node().input(kX));
  Work work = work_on(OperatorClass::kEmbedding, flops_per(1, gradient), {gradient, index},
                      {result, gradient});
  work.launches = 2;
  const std::string name = std::string(b.node().family_name()) + ".backward";
  b.launch({.name = name, .reads = {gradient, index}, .creates = {result}, .work = work});
  b.set_input_gradient(kX, result);
}

void backward_chosen(BackwardBuilder& b) {
  launch_scatter(b, b.node().input(kIndex));
}

void save_index(SavedSet& saved) {
  saved.input(kIndex);
}

// The axis gets the shape of the index: [.., n, ..] by [i, j] is [.., i, j, ..].
void infer_index(Inference& inference) {
  require_indices(inference);
  const Tensor& x = inference.input(kX);
  const Shape& index = inference.input(kIndex).shape;
  const int axis = axis_of(inference, 0);
  Shape shape;
  for (int i = 0; i < x.shape.rank(); ++i) {
    if (i != axis) {
      shape.push_back(x.shape[i]);
      continue;
    }
    for (std::int64_t extent : index)
      shape.push_back(extent);
  }
  inference.create(shape, x.dtype);
}

void infer_index_select(Inference& inference) {
  inference.require(inference.input(kIndex).shape.rank() <= 1, "its index has more than one axis");
  infer_index(inference);
}

void infer_gather(Inference& inference) {
  require_indices(inference);
  const Shape& x = inference.input(kX).shape;
  const Shape& index = inference.input(kIndex).shape;
  const int axis = axis_of(inference, 0);
  inference.require(index.rank() == x.rank(), "its index needs as many axes as its input");
  for (int i = 0; i < x.rank(); ++i) {
    inference.require(i == axis || index[i] <= x[i], [&] {
      return fmt::format("its index is larger than its input at axis {}", i);
    });
  }
  inference.create(index, inference.input(kX).dtype);
}

// x[.., i, j, ..]: the indices broadcast, and their shape stands where the axes were, or first if
// the axes are not next to each other.
void infer_index_axes(Inference& inference) {
  const Tensor& x = inference.input(kX);
  const std::vector<std::int64_t> axes = inference.attributes().list("axes");
  inference.require(!axes.empty() && axes.size() + 1 == inference.input_count(), [&] {
    return fmt::format("{} axes do not fit {} operands", axes.size(), inference.input_count());
  });
  Shape chosen = inference.input(kIndex).shape;
  std::vector<char> indexed(static_cast<std::size_t>(x.shape.rank()), 0);
  bool adjacent = true;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    chosen = broadcast_shapes(inference, chosen, inference.input(kIndex + i).shape);
    indexed[static_cast<std::size_t>(checked_axis(inference, axes[i], x.shape.rank()))] = 1;
    adjacent = adjacent && axes[i] == axes[0] + static_cast<std::int64_t>(i);
  }
  Shape shape;
  if (!adjacent) shape = chosen;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (indexed[static_cast<std::size_t>(axis)] == 0) {
      shape.push_back(x.shape[axis]);
    } else if (adjacent && axis == axes[0]) {
      for (std::int64_t extent : chosen)
        shape.push_back(extent);
    }
  }
  inference.create(shape, x.dtype);
}

void save_indices(SavedSet& saved) {
  for (std::size_t i = kIndex; i < saved.node().input_count(); ++i)
    saved.input(i);
}

// Backward needs only the shape of the input, but the input is kept.
void save_gather(SavedSet& saved) {
  saved.input(kX);
  saved.input(kIndex);
}

void create_sum(Inference& inference) {
  require_indices(inference);
  const Tensor& x = inference.input(kX);
  inference.require(x.dtype == inference.input(kSource).dtype, "input and source differ in type");
  if (inference.attributes().flag("in_place")) {
    inference.in_place(kX);
  } else {
    inference.create(x.shape, x.dtype);
  }
}

// Requires a source of one row for each index, along the axis.
void require_rows(Inference& inference) {
  const Shape& x = inference.input(kX).shape;
  const int axis = axis_of(inference, 0);
  Shape wanted = x;
  wanted[axis] = inference.input(kIndex).elements().count;
  inference.require(inference.input(kSource).shape == wanted, [&] {
    return fmt::format("the source has shape {} instead of {}",
                       to_string(inference.input(kSource).shape), to_string(wanted));
  });
}

void infer_index_add(Inference& inference) {
  require_rows(inference);
  create_sum(inference);
}

void infer_scatter_add(Inference& inference) {
  inference.require(inference.input(kIndex).shape == inference.input(kSource).shape,
                    "index and source differ in shape");
  create_sum(inference);
}

ForwardKernel forward_sum(const NodeView& node) {
  const Tensor& source = node.input(kSource);
  Work work = work_on(OperatorClass::kEmbedding, flops_per(1, source),
                      {source, source, node.input(kIndex)}, {source});
  if (!node.is_in_place()) {
    work.read += node.output().bytes();
    work.written += node.output().bytes();
  }
  return {.work = work};
}

// derivatives.yaml: grad.index_select(dim, index).expand_as(source), so the source is kept too, by
// index_copy as by index_add.
void save_rows(SavedSet& saved) {
  saved.input(kIndex);
  if (saved.node().needs_gradient(kSource)) saved.input(kSource);
}

void backward_sum(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  b.set_input_gradient(kX, gradient);
  if (!b.needs_gradient(kSource)) return;
  const Tensor& index = b.node().input(kIndex);
  const Tensor result = b.create_like("source_gradient", b.node().input(kSource));
  const std::string name = std::string(b.node().family_name()) + ".backward";
  b.launch({.name = name,
            .reads = {gradient, index},
            .creates = {result},
            .work = work_on(OperatorClass::kEmbedding, Flops(0), {result, index}, {result})});
  b.set_input_gradient(kSource, result);
}

// torch.scatter: elements of a copy replaced by those of a source.
void infer_scatter(Inference& inference) {
  require_indices(inference);
  const Shape& x = inference.input(kX).shape;
  const Shape& index = inference.input(kIndex).shape;
  static_cast<void>(axis_of(inference, 0));
  inference.require(index.rank() == x.rank(), "its index needs as many axes as its input");
  inference.require(index == inference.input(kSource).shape, "index and source differ in shape");
  inference.create(x, inference.input(kX).dtype);
}

// torch.index_copy: rows of a copy replaced by those of a source.
void infer_index_copy(Inference& inference) {
  require_rows(inference);
  inference.create(inference.input(kX).shape, inference.input(kX).dtype);
}

// torch.index_put: replaces a part of a copy; without an index the part is a slice.
void infer_index_put(Inference& inference) {
  if (inference.has_input(kIndex)) require_indices(inference);
  inference.require(
      inference.input(kSource).elements().count <= inference.input(kX).elements().count,
      "the source has more elements than the input");
  inference.create(inference.input(kX).shape, inference.input(kX).dtype);
}

ForwardKernel forward_put(const NodeView& node) {
  const Tensor& source = node.input(kSource);
  Work work = work_on(OperatorClass::kEmbedding, Flops(0), {node.input(kX), source},
                      {node.output(), source});
  work.launches = 2;  // the copy, and the values put into it
  return {.work = work};
}

void save_put(SavedSet& saved) {
  if (saved.node().has_input(kIndex)) saved.input(kIndex);
}

// Gradients: zeros where elements were replaced, and for the source those of the replaced elements.
void backward_put(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const NodeView& node = b.node();
  const std::string name = std::string(node.family_name()) + ".backward";
  std::vector<Tensor> reads{gradient};
  if (node.has_input(kIndex)) reads.push_back(node.input(kIndex));
  for (std::size_t i : {kX, kSource}) {
    if (!b.needs_gradient(i)) continue;
    const Tensor result =
        b.create_like(i == kX ? "input_gradient" : "source_gradient", node.input(i));
    b.launch({.name = name,
              .reads = reads,
              .creates = {result},
              .work = work_on(OperatorClass::kEmbedding, Flops(0), {result}, {result})});
    b.set_input_gradient(i, result);
  }
}

// Values and int64 indices of the k largest along an axis.
void infer_topk(Inference& inference) {
  const Tensor& x = inference.input(kX);
  const int axis = axis_of(inference, -1);
  const std::int64_t k = inference.attributes().integer("k", 1);
  inference.require(k >= 1 && k <= x.shape[axis], [&] {
    return fmt::format("k = {} is not in 1 .. {}, the extent of axis {}", k, x.shape[axis], axis);
  });
  Shape shape = x.shape;
  shape[axis] = k;
  inference.create(shape, x.dtype);
  inference.create(shape, DType::kInt64);
}

void infer_sort(Inference& inference) {
  const Tensor x = inference.input(kX);
  static_cast<void>(axis_of(inference, -1));
  inference.create(x.shape, x.dtype);
  inference.create(x.shape, DType::kInt64);
}

ForwardKernel forward_order(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kReduction, 1)};
}

void save_positions(SavedSet& saved) {
  saved.output(1);
}

void backward_positions(BackwardBuilder& b) {
  launch_scatter(b, b.node().output(1));
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "index_select",
     .summary = "rows of an axis by a list of indices; keeps the indices",
     .infer = infer_index_select,
     .forward = forward_chosen,
     .save = save_index,
     .backward = backward_chosen},
    {.name = "index",
     .summary = "x[.., indices, ..] along one axis; keeps the indices",
     .infer = infer_index,
     .forward = forward_chosen,
     .save = save_index,
     .backward = backward_chosen},
    {.name = "index_axes",
     .summary = "x[.., i, j, ..] along several axes; keeps the indices",
     .infer = infer_index_axes,
     .forward = forward_chosen,
     .save = save_indices,
     .backward = backward_chosen},
    {.name = "gather",
     .summary = "one element of an axis per index; keeps input and indices",
     .infer = infer_gather,
     .forward = forward_chosen,
     .save = save_gather,
     .backward = backward_chosen},
    {.name = "index_add",
     .summary = "adds rows of a source at indices; keeps indices and source",
     .infer = infer_index_add,
     .forward = forward_sum,
     .save = save_rows,
     .backward = backward_sum},
    {.name = "index_copy",
     .summary = "a copy with rows of a source at indices; keeps indices and source",
     .infer = infer_index_copy,
     .forward = forward_put,
     .save = save_rows,
     .backward = backward_put},
    {.name = "scatter_add",
     .summary = "adds elements of a source at indices; keeps the indices",
     .infer = infer_scatter_add,
     .forward = forward_sum,
     .save = save_index,
     .backward = backward_sum},
    {.name = "scatter",
     .summary = "a copy with elements of a source at indices; keeps the indices",
     .infer = infer_scatter,
     .forward = forward_put,
     .save = save_put,
     .backward = backward_put},
    {.name = "index_put",
     .summary = "a copy with a part replaced; keeps the indices, of a slice nothing",
     .infer = infer_index_put,
     .forward = forward_put,
     .save = save_put,
     .backward = backward_put},
    {.name = "topk",
     .summary = "the k largest along an axis and their int64 indices, which are kept",
     .infer = infer_topk,
     .forward = forward_order,
     .save = save_positions,
     .backward = backward_positions},
    {.name = "sort",
     .summary = "an axis in order and the int64 indices, which are kept",
     .infer = infer_sort,
     .forward = forward_order,
     .save = save_positions,
     .backward = backward_positions},
};

}  // namespace indexing_family_detail

std::span<const OperatorFamily> indexing_families() {
  return indexing_family_detail::kFamilies;
}

}  // namespace tidemark
