// torch.nn.functional.embedding. With sparse=True the gradient is the indices and the incoming rows
// themselves; otherwise it is dense.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace embedding_family_detail {

constexpr std::size_t kIndices = 0;
constexpr std::size_t kWeight = 1;  // [rows, width]

void infer(Inference& inference) {
  const Tensor& indices = inference.input(kIndices);
  const Tensor& weight = inference.input(kWeight);
  inference.require(indices.dtype == DType::kInt64 || indices.dtype == DType::kInt32, [&] {
    return fmt::format("indices are {}, not int64", name_of(indices.dtype));
  });
  inference.require(weight.shape.rank() == 2, "the weight needs the axes rows and width");
  Shape result = indices.shape;
  result.push_back(weight.shape[1]);
  inference.create(result, weight.dtype);
}

ForwardKernel forward(const NodeView& node) {
  const Tensor& out = node.output();
  Work work{.op_class = OperatorClass::kEmbedding, .dtype = out.dtype};
  work.read = out.bytes() + node.input(kIndices).bytes();  // as many rows as are looked up
  work.written = out.bytes();
  return {.work = work};
}

// Backward needs only the weight's number of rows, but the weight is kept.
void save(SavedSet& saved) {
  saved.input(kIndices);
  saved.input(kWeight);
}

void backward_sparse(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const std::int64_t width = gradient.shape[-1];
  b.set_input_gradient(kWeight, reshaped(b, gradient, {gradient.elements().count / width, width}));
}

// The gradient is dense: zeros of the weight's size into which rows are added.
void backward(BackwardBuilder& b) {
  if (!b.needs_gradient(kWeight)) return;
  if (b.node().attributes().flag("sparse")) {
    backward_sparse(b);
    return;
  }
  const Tensor& indices = b.node().input(kIndices);
  const Tensor gradient = b.output_gradient();
  const Tensor result = b.create_like("weight_gradient", b.node().input(kWeight));
  Work work = work_on(OperatorClass::kEmbedding, flops_per(1, gradient), {gradient, indices}, {});
  work.read += gradient.bytes();
  work.written = result.bytes() + gradient.bytes();
  work.launches = 2;
  // embedding_dense_backward_cuda sorts the indices together with their positions.
  const Bytes workspace = b.node().rules().sorts_indices ? indices.bytes() * 2 : Bytes(0);
  b.launch({.name = "embedding.weight_gradient",
            .part = OperatorPart::kWeightGradient,
            .reads = {gradient, indices},
            .creates = {result},
            .work = work,
            .workspace = workspace});
  b.set_input_gradient(kWeight, result);
}

// --- torch.nn.functional.embedding_bag: one row for each bag of indices, which begins at an
// offset. Measured on PyTorch 1.13.1's CPU; what differs on CUDA is that of EmbeddingBag.cu.

constexpr std::size_t kOffsets = 2;  // [bags], int64

bool is_summed(const NodeView& node) {
  return node.attributes().text("mode", "mean") == "sum";
}

void infer_bag(Inference& inference) {
  const Tensor& indices = inference.input(kIndices);
  const Tensor& weight = inference.input(kWeight);
  const Tensor& offsets = inference.input(kOffsets);
  inference.require(indices.shape.rank() == 1 && offsets.shape.rank() == 1,
                    "indices and offsets need one axis");
  inference.require(weight.shape.rank() == 2, "the weight needs the axes rows and width");
  const std::string mode = inference.attributes().text("mode", "mean");
  inference.require(mode == "sum" || mode == "mean" || mode == "max",
                    [&] { return fmt::format("mode = '{}' is none of sum, mean and max", mode); });
  const std::int64_t bags =
      offsets.shape[0] - inference.attributes().integer("include_last_offset", 0);
  inference.require(bags >= 0, "offsets that include the last one need one at least");
  inference.create({bags, weight.shape[1]}, weight.dtype);
}

// The bag of each index. The CPU's table has one element more than there are indices.
Shape bags_of_indices(const NodeView& node) {
  return {node.input(kIndices).shape[0] + (node.rules().sorts_indices ? 0 : 1)};
}

ForwardKernel forward_bag(const NodeView& node) {
  const Tensor& indices = node.input(kIndices);
  const Tensor& weight = node.input(kWeight);
  const Bytes rows = bytes_of(weight.dtype, Elements(indices.shape[0] * weight.shape[1]));
  Work work{.op_class = OperatorClass::kEmbedding, .dtype = weight.dtype};
  work.read = rows + indices.bytes() + node.input(kOffsets).bytes();
  work.written = node.output().bytes();
  const bool tabulates = !node.rules().sorts_indices && !is_summed(node);
  return {.work = work,
          .workspace =
              tabulates ? bytes_of(DType::kInt64, Elements(bags_of_indices(node)[0])) : Bytes(0)};
}

// The sizes of the bags, the largest index of each (of each column under max), and the bag of each
// index, which a sum on a CPU does without. On CUDA only max has largest indices.
void save_bag(SavedSet& saved) {
  const NodeView& node = saved.node();
  const bool on_cpu = !node.rules().sorts_indices;
  const Shape bags{node.output().shape[0]};
  saved.input(kIndices);
  saved.input(kOffsets);
  if (!on_cpu || !is_summed(node)) saved.extra("offset2bag", bags_of_indices(node), DType::kInt64);
  saved.extra("bag_size", bags, DType::kInt64);
  const bool is_max = node.attributes().text("mode", "mean") == "max";
  if (is_max || on_cpu)
    saved.extra("max_indices", is_max ? node.output().shape : bags, DType::kInt64);
}

void backward_bag(BackwardBuilder& b) {
  if (!b.needs_gradient(kWeight)) return;
  const NodeView& node = b.node();
  const bool on_cpu = !node.rules().sorts_indices;
  const Tensor& indices = node.input(kIndices);
  const Tensor& offsets = node.input(kOffsets);
  Tensor bag_of_index;
  if (on_cpu && is_summed(node)) {
    bag_of_index = b.create_temporary("offset2bag", bags_of_indices(node), DType::kInt64);
    b.launch({.name = "embedding_bag.offset2bag",
              .reads = {indices, offsets},
              .creates = {bag_of_index},
              .work = work_on(OperatorClass::kElementwise, Flops(0), {offsets}, {bag_of_index}),
              .temporary = bag_of_index.bytes()});
  } else {
    bag_of_index = b.saved("offset2bag");
  }
  const Tensor gradient = b.contiguous(b.output_gradient());
  const Tensor result = b.create_like("weight_gradient", node.input(kWeight));
  Work work = work_on(OperatorClass::kEmbedding, flops_per(1, gradient),
                      {gradient, indices, bag_of_index}, {result});
  work.launches = 2;
  b.launch({.name = "embedding_bag.weight_gradient",
            .part = OperatorPart::kWeightGradient,
            .reads = {gradient, indices, bag_of_index},
            .creates = {result},
            .work = work,
            // the indices, sorted together with their positions; a CPU counts them, too
            .workspace = indices.bytes() * (on_cpu ? 3 : 2)});
  b.set_input_gradient(kWeight, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "embedding_bag",
     .summary = "sum, mean or max of rows of weight [rows, width] by bags of indices; keeps the "
                "indices and tables of the bags",
     .infer = infer_bag,
     .forward = forward_bag,
     .save = save_bag,
     .backward = backward_bag},
    {.name = "embedding",
     .summary = "rows of weight [rows, width] by indices; keeps the indices",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace embedding_family_detail

std::span<const OperatorFamily> embedding_families() {
  return embedding_family_detail::kFamilies;
}

}  // namespace tidemark
