// A tensor, or a number, to the power of a tensor.
#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace tensor_power_family_detail {

constexpr std::size_t kBase = 0;  // absent: a number
constexpr std::size_t kExponent = 1;

void infer(Inference& inference) {
  const Tensor& exponent = inference.input(kExponent);
  if (!inference.has_input(kBase)) {
    inference.create(exponent.shape, exponent.dtype);
    return;
  }
  const Tensor& base = inference.input(kBase);
  create_elementwise(inference, broadcast_shapes(inference, base.shape, exponent.shape),
                     result_type(base, exponent));
}

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 10)};
}

// A number as the base is a tensor of the result's type.
void save(SavedSet& saved) {
  const bool is_number = !saved.node().has_input(kBase);
  if (!is_number) saved.input(kBase);
  if (is_number && saved.node().rules().scalars_are_tensors)
    saved.extra("base", {}, saved.node().output().dtype);
  saved.input(kExponent);
  saved.output();
}

// The tensors that live beside the gradient of the exponent, grad * where(cond, 0, result *
// self.log()): the mask, the logarithm in the base's shape, the product and what is chosen of it.
Bytes beside_exponent_gradient(const NodeView& node, const Tensor& gradient) {
  const Bytes logarithm = node.has_input(kBase)
                              ? node.input(kBase).bytes()
                              : scalar_operand(node.rules(), gradient.dtype).converted;
  return gradient.bytes() * 2 + logarithm + bytes_of(DType::kBool, gradient.elements());
}

// The tensors that live beside the gradient of the base, where(exponent == 0, 0, grad * (exponent *
// self.pow(exponent - 1))): the difference and the mask in the exponent's shape, the power and two
// products.
Bytes beside_base_gradient(const NodeView& node, const Tensor& gradient) {
  const Tensor& exponent = node.input(kExponent);
  return gradient.bytes() * 3 + exponent.bytes() + bytes_of(DType::kBool, exponent.elements());
}

// pow_backward_exponent, then pow_backward_self.
void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  const Bytes filler = scalar_operand(node.rules(), gradient.dtype).converted;
  std::vector<Tensor> reads{gradient, node.input(kExponent), node.output()};
  if (node.has_input(kBase)) reads.push_back(node.input(kBase));
  if (!node.has_input(kBase) && node.rules().scalars_are_tensors) reads.push_back(b.saved("base"));
  Tensor results[2];
  for (std::size_t i : {kExponent, kBase}) {
    if (!b.needs_gradient(i)) continue;
    results[i] = create_dense(b, "power_gradient", gradient);
    const Bytes beside = i == kExponent ? beside_exponent_gradient(node, gradient)
                                        : beside_base_gradient(node, gradient);
    b.launch_elementwise("pow.backward", reads, results[i], OperatorClass::kElementwise, 10,
                         Bytes(0), beside + filler);
  }
  set_fitted_gradient(b, kBase, results[kBase]);
  set_fitted_gradient(b, kExponent, results[kExponent]);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "tensor_power",
     .summary = "a to the power of a tensor; keeps both and the result",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace tensor_power_family_detail

std::span<const OperatorFamily> tensor_power_families() {
  return tensor_power_family_detail::kFamilies;
}

}  // namespace tidemark
