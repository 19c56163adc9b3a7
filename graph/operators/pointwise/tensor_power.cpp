// A tensor, or a number, to the power of a tensor.
#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace tensor_power_family {

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
                     promote(base.dtype, exponent.dtype));
}

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 10)};
}

void save(SavedSet& saved) {
  if (saved.node().has_input(kBase)) saved.input(kBase);
  saved.input(kExponent);
  saved.output();
}

// pow_backward_exponent: where(cond, 0, grad * (result * self.log())), cond a mask; then
// pow_backward_self: where(exponent == 0, 0, grad * (exponent * self.pow(exponent - 1))).
void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  const Bytes mask = bytes_of(DType::kBool, gradient.elements());
  const Bytes filler = scalar_operand(node.rules(), gradient.dtype).converted;
  std::vector<Tensor> reads{gradient, node.input(kExponent), node.output()};
  if (node.has_input(kBase)) reads.push_back(node.input(kBase));
  Tensor results[2];
  for (std::size_t i : {kExponent, kBase}) {
    if (!b.needs_gradient(i)) continue;
    results[i] = create_dense(b, "power_gradient", gradient);
    const int temporaries = i == kExponent ? 3 : 4;
    b.launch_elementwise("pow.backward", reads, results[i], OperatorClass::kElementwise, 10,
                         Bytes(0), gradient.bytes() * temporaries + mask + filler);
  }
  for (std::size_t i : {kExponent, kBase}) {
    if (b.needs_gradient(i)) set_fitted_gradient(b, i, results[i]);
  }
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "tensor_power",
     .summary = "a to the power of a tensor; keeps both and the result",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace tensor_power_family

std::span<const OperatorFamily> tensor_power_families() {
  return tensor_power_family::kFamilies;
}

}  // namespace tidemark
