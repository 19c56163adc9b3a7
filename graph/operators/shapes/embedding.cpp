// torch.nn.functional.embedding. With sparse=True the gradient is the indices and the incoming rows
// themselves; otherwise it is dense.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace embedding_family {

constexpr std::size_t kIndices = 0;
constexpr std::size_t kWeight = 1;  // [rows, width]

void infer(Inference& inference) {
  const Tensor& indices = inference.input(kIndices);
  const Tensor& weight = inference.input(kWeight);
  inference.require(indices.dtype == DType::kInt64 || indices.dtype == DType::kInt32,
                    fmt::format("indices are {}, not int64", name_of(indices.dtype)));
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

constexpr OperatorFamily kFamilies[] = {
    {.name = "embedding",
     .summary = "rows of weight [rows, width] by indices; keeps the indices",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace embedding_family

std::span<const OperatorFamily> embedding_families() {
  return embedding_family::kFamilies;
}

}  // namespace tidemark
