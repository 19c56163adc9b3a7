// Tensors that forward makes from nothing: positions, token types, random numbers.
#include "graph/operators/pointwise/creation.hpp"

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace creation_family_detail {

void infer_arange(Inference& inference) {
  inference.create({inference.attributes().integer("length")}, DType::kInt64);
}

void infer_zeros(Inference& inference) {
  create_shaped(inference, "int64");
}

// The type follows that of the operand, which autocast may change.
void infer_random_like(Inference& inference) {
  const Tensor x = inference.input(0);
  inference.create(x.shape, x.dtype);
  inference.follow_gradient(false);
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
     .summary = "zeros of a shape and an element type, int64 when absent",
     .infer = infer_zeros,
     .forward = forward,
     .save = save_nothing,
     .backward = no_backward},
    {.name = "random_like",
     .summary = "random numbers of a tensor's shape and type: randn_like, bernoulli",
     .infer = infer_random_like,
     .forward = forward,
     .save = save_nothing,
     .backward = no_backward},
};

}  // namespace creation_family_detail

void create_shaped(Inference& inference, const std::string& fallback) {
  const std::string wanted = inference.attributes().text("dtype", fallback);
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name_of(dtype) != wanted) continue;
    inference.create(shape_from(inference.attributes().list("shape")), dtype);
    return;
  }
  inference.fail(fmt::format("'{}' is not an element type", wanted));
}

std::span<const OperatorFamily> creation_families() {
  return creation_family_detail::kFamilies;
}

}  // namespace tidemark
