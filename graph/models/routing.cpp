#include "graph/models/routing.hpp"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/pointwise/creation.hpp"

namespace tidemark {
namespace routing_detail {
namespace {

void infer_top_k(Inference& inference) {
  const Tensor x = inference.input(0);
  const std::int64_t k = inference.attributes().integer("k", 1);
  inference.require(x.shape.rank() >= 1, "needs an axis to choose from");
  inference.require(k >= 1 && k <= x.shape[-1],
                    [&] { return fmt::format("cannot choose {} of {}", k, x.shape[-1]); });
  Shape shape = x.shape;
  shape[-1] = k;
  inference.create(shape, x.dtype);
  inference.create(shape, DType::kInt64);
}

ForwardKernel forward_top_k(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kReduction, 4)};
}

void save_top_k(SavedSet& saved) {
  saved.output(1);
}

// value_selecting_reduction_backward: zeros of the input's size, then one element per choice.
void backward_top_k(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient(0);
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  Work work =
      work_on(OperatorClass::kMemset, Flops(0), {gradient, b.node().output(1)}, {result, gradient});
  work.launches = 2;
  b.launch({.name = "top_k.backward",
            .reads = {gradient, b.node().output(1)},
            .creates = {result},
            .work = work});
  b.set_input_gradient(0, result);
}

void infer_one_hot(Inference& inference) {
  Shape shape = inference.input(0).shape;
  shape.push_back(inference.attributes().integer("classes", 1));
  inference.create(shape, DType::kInt64);
}

void infer_nonzero(Inference& inference) {
  const std::int64_t count = inference.attributes().integer("count", 1);
  inference.create({count, inference.input(0).shape.rank()}, DType::kInt64);
}

ForwardKernel forward_elementwise(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 1)};
}

void infer_new_zeros(Inference& inference) {
  create_shaped(inference, "fp32");
}

ForwardKernel forward_new_zeros(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kMemset, 0)};
}

// The result has the indices' length, then the axes of x that were not indexed.
void infer_index(Inference& inference) {
  const Tensor x = inference.input(0);
  const int indexed = static_cast<int>(inference.input_count()) - 1;
  inference.require(indexed >= 1 && indexed <= x.shape.rank(), "needs one index per leading axis");
  const Shape length = inference.input(1).shape;
  for (int i = 1; i <= indexed; ++i) {
    const Tensor& index = inference.input(static_cast<std::size_t>(i));
    inference.require(
        index.dtype == DType::kInt64 && index.shape.rank() == 1 && index.shape == length,
        "indices are int64 with one axis, all of one length");
  }
  Shape shape = length;
  for (int axis = indexed; axis < x.shape.rank(); ++axis)
    shape.push_back(x.shape[axis]);
  inference.create(shape, x.dtype);
}

ForwardKernel forward_index(const NodeView& node) {
  Work work{.op_class = OperatorClass::kEmbedding, .dtype = node.output().dtype};
  work.read = node.output().bytes();
  for (std::size_t i = 1; i < node.input_count(); ++i)
    work.read += node.input(i).bytes();
  work.written = node.output().bytes();
  return {.work = work};
}

void save_indices(SavedSet& saved) {
  for (std::size_t i = 1; i < saved.node().input_count(); ++i)
    saved.input(i);
}

// new_zeros(x).index_put_(indices, gradient, accumulate=True), which on CUDA sorts the linear index
// together with positions.
void backward_index(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  const Tensor result = b.create_like("input_gradient", node.input(0));
  BackwardBuilder::Kernel kernel{.name = "index.backward", .reads = {gradient}};
  for (std::size_t i = 1; i < node.input_count(); ++i)
    kernel.reads.push_back(node.input(i));
  kernel.creates = {result};
  kernel.work = work_on(OperatorClass::kEmbedding, flops_per(1, gradient), {gradient, gradient},
                        {result, gradient});
  kernel.work.launches = 2;
  const Bytes index = bytes_of(DType::kInt64, Elements(node.input(1).elements().count));
  kernel.workspace = node.rules().sorts_indices ? index * 4 : Bytes(0);
  b.launch(kernel);
  b.set_input_gradient(0, result);
}

constexpr std::size_t kTarget = 0;
constexpr std::size_t kIndices = 1;
constexpr std::size_t kSource = 2;

void infer_index_add(Inference& inference) {
  const Tensor& x = inference.input(kTarget);
  const Tensor& source = inference.input(kSource);
  inference.require(inference.attributes().flag("in_place"), "always works in place");
  inference.require(x.shape.rank() == source.shape.rank() && x.shape.rank() >= 1,
                    "target and source differ in the number of axes");
  Shape rows = source.shape;
  inference.require(inference.input(kIndices).shape == Shape{rows[0]},
                    "needs one index per row of the source");
  rows[0] = x.shape[0];
  inference.require(rows == x.shape, "target and source differ outside axis 0");
  inference.require(x.dtype == source.dtype, "target and source differ in type");
  inference.in_place(kTarget);
}

ForwardKernel forward_index_add(const NodeView& node) {
  const Tensor& source = node.input(kSource);
  return {.work = work_on(OperatorClass::kEmbedding, flops_per(1, source),
                          {source, source, node.input(kIndices)}, {source})};
}

// derivatives.yaml: grad.index_select(dim, index).expand_as(source), so the source is kept too.
void save_index_add(SavedSet& saved) {
  saved.input(kIndices);
  if (saved.node().needs_gradient(kSource)) saved.input(kSource);
}

// The target passes its gradient on; the source gets the rows that it was added to.
void backward_index_add(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  if (b.needs_gradient(kSource)) {
    const Tensor result = b.create_like("source_gradient", node.input(kSource));
    b.launch({.name = "index_add.backward",
              .reads = {gradient, node.input(kIndices)},
              .creates = {result},
              .work = work_on(OperatorClass::kEmbedding, Flops(0), {result, node.input(kIndices)},
                              {result})});
    b.set_input_gradient(kSource, result);
  }
  b.set_input_gradient(kTarget, gradient);
}

constexpr OperatorFamily kTopK{.name = "top_k",
                               .summary = "the k largest of the last axis; keeps int64 indices",
                               .infer = infer_top_k,
                               .forward = forward_top_k,
                               .save = save_top_k,
                               .backward = backward_top_k};
constexpr OperatorFamily kOneHot{.name = "one_hot",
                                 .summary = "int64 indices as rows of zeros and a one",
                                 .infer = infer_one_hot,
                                 .forward = forward_elementwise,
                                 .save = save_nothing,
                                 .backward = no_backward};
constexpr OperatorFamily kNonzero{.name = "nonzero",
                                  .summary = "int64 positions of what is not zero",
                                  .infer = infer_nonzero,
                                  .forward = forward_elementwise,
                                  .save = save_nothing,
                                  .backward = no_backward};
constexpr OperatorFamily kNewZeros{.name = "new_zeros",
                                   .summary = "zeros of a shape and type",
                                   .infer = infer_new_zeros,
                                   .forward = forward_new_zeros,
                                   .save = save_nothing,
                                   .backward = no_backward};
constexpr OperatorFamily kIndex{.name = "index",
                                .summary = "x[i] or x[i, j] by int64 indices; keeps the indices",
                                .infer = infer_index,
                                .forward = forward_index,
                                .save = save_indices,
                                .backward = backward_index};
constexpr OperatorFamily kIndexAdd{.name = "index_add",
                                   .summary = "adds rows in place; keeps indices and source",
                                   .infer = infer_index_add,
                                   .forward = forward_index_add,
                                   .save = save_index_add,
                                   .backward = backward_index_add};

}  // namespace
}  // namespace routing_detail

const OperatorFamily& top_k_family() {
  return routing_detail::kTopK;
}
const OperatorFamily& one_hot_family() {
  return routing_detail::kOneHot;
}
const OperatorFamily& nonzero_family() {
  return routing_detail::kNonzero;
}
const OperatorFamily& new_zeros_family() {
  return routing_detail::kNewZeros;
}
const OperatorFamily& index_family() {
  return routing_detail::kIndex;
}
const OperatorFamily& index_add_family() {
  return routing_detail::kIndexAdd;
}

}  // namespace tidemark
