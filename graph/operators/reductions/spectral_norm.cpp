// torch.nn.utils.spectral_norm: a weight over its largest singular value, which one step of power
// iteration estimates before each forward pass (torch/nn/utils/spectral_norm.py, compute_weight).
// Measured on PyTorch 1.13.1.
#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace spectral_norm_family_detail {

constexpr std::size_t kWeight = 0;
constexpr std::size_t kLeft = 1;   // u, one number per row of the weight as a matrix
constexpr std::size_t kRight = 2;  // v, one per column

void infer(Inference& inference) {
  const Tensor& weight = inference.input(kWeight);
  const std::int64_t rows = inference.input(kLeft).elements().count;
  const std::int64_t columns = inference.input(kRight).elements().count;
  inference.require(rows * columns == weight.elements().count,
                    "the vectors do not fit the weight as a matrix");
  inference.create(weight.shape, weight.dtype);
}

// Three products of the matrix with a vector, two of them in the power iteration without gradients,
// and the division.
ForwardKernel forward(const NodeView& node) {
  const Tensor& weight = node.input(kWeight);
  Work work = work_on(OperatorClass::kReduction, flops_per(7, weight), {weight, weight, weight},
                      {node.output()});
  work.launches = 12;
  return {.work = work, .workspace = node.input(kLeft).bytes() + node.input(kRight).bytes()};
}

// The vectors are cloned, as the next pass changes them in place.
void save(SavedSet& saved) {
  const NodeView& node = saved.node();
  for (const auto& [name, index] : {std::pair("left", kLeft), std::pair("right", kRight)})
    saved.extra(name, node.input(index).shape, node.input(index).dtype);
  saved.extra("sigma", {}, node.output().dtype);
  saved.input(kWeight);
}

// grad / sigma, and through sigma -grad * ((weight / sigma) / sigma), summed up and multiplied with
// the vectors: three tensors of the weight's size beside the first.
void backward(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor& weight = b.node().input(kWeight);
  const Tensor result = b.create_like("weight_gradient", weight);
  Work work = work_on(OperatorClass::kElementwise, flops_per(8, weight),
                      {gradient, weight, weight, weight, weight}, {result, weight, weight, weight});
  work.launches = 9;
  b.launch({.name = "spectral_norm.backward",
            .part = OperatorPart::kWeightGradient,
            .reads = {gradient, weight, b.saved("left"), b.saved("right"), b.saved("sigma")},
            .creates = {result},
            .work = work,
            .temporary = weight.bytes() * 3});
  b.set_input_gradient(kWeight, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "spectral_norm",
     .summary = "a weight over its largest singular value; keeps the vectors and the value",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace spectral_norm_family_detail

std::span<const OperatorFamily> spectral_norm_families() {
  return spectral_norm_family_detail::kFamilies;
}

}  // namespace tidemark
