// Tensors that forward makes from nothing: positions, token types.
#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace {

void infer_arange(Inference& inference) {
  inference.create({inference.attributes().integer("length")}, DType::kInt64);
}

void infer_zeros(Inference& inference) {
  inference.create(shape_from(inference.attributes().list("shape")), DType::kInt64);
}

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kMemset, 0)};
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "arange",
     .summary = "int64 positions 0 .. length - 1",
     .infer = infer_arange,
     .forward = forward,
     .save = save_nothing,
     .backward = no_backward},
    {.name = "zeros",
     .summary = "int64 zeros of a shape",
     .infer = infer_zeros,
     .forward = forward,
     .save = save_nothing,
     .backward = no_backward},
};

}  // namespace

std::span<const OperatorFamily> creation_families() {
  return kFamilies;
}

}  // namespace tidemark
