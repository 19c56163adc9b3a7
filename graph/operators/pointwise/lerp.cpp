// torch.lerp: x + weight * (end - x), for a weight that is a number or a tensor.
#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace lerp_family_detail {

constexpr std::size_t kX = 0;
constexpr std::size_t kEnd = 1;
constexpr std::size_t kWeight = 2;  // absent: a number

void infer(Inference& inference) {
  Shape shape = broadcast_shapes(inference, inference.input(kX).shape, inference.input(kEnd).shape);
  if (inference.has_input(kWeight))
    shape = broadcast_shapes(inference, shape, inference.input(kWeight).shape);
  create_elementwise(inference, shape, inference.input(kX).dtype);
}

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 3)};
}

void save(SavedSet& saved) {
  const NodeView& node = saved.node();
  if (!node.has_input(kWeight)) return;
  if (node.needs_gradient(kWeight)) {
    saved.input(kX);
    saved.input(kEnd);
  }
  if (node.needs_gradient(kX) || node.needs_gradient(kEnd)) saved.input(kWeight);
}

// derivatives.yaml: grad * (1 - weight) for x, grad * weight for the end, and grad * (end - x) for
// a weight that is a tensor. The factors in parentheses are tensors of their own.
void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  const bool by_tensor = node.has_input(kWeight);
  const Bytes number = by_tensor ? Bytes(0) : scalar_temporaries(node.rules(), gradient.dtype);
  Tensor results[3];
  for (const std::size_t i : {kEnd, kX, kWeight}) {
    if ((i == kWeight && !by_tensor) || !b.needs_gradient(i)) continue;
    results[i] = create_dense(b, "lerp_gradient", gradient);
    std::vector<Tensor> reads{gradient};
    Bytes factor;
    if (i == kWeight) {
      reads.insert(reads.end(), {node.input(kX), node.input(kEnd)});
      factor = gradient.bytes();
    } else if (by_tensor) {
      reads.push_back(node.input(kWeight));
      if (i == kX) factor = node.input(kWeight).bytes();
    }
    b.launch_elementwise("lerp.backward", std::move(reads), results[i], OperatorClass::kElementwise,
                         factor > Bytes(0) ? 2 : 1, number, factor);
  }
  set_fitted_gradient(b, kX, results[kX]);
  set_fitted_gradient(b, kEnd, results[kEnd]);
  if (by_tensor) set_fitted_gradient(b, kWeight, results[kWeight]);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "lerp",
     .summary = "between x and an end; keeps a weight that is a tensor, and both for its gradient",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace lerp_family_detail

std::span<const OperatorFamily> lerp_families() {
  return lerp_family_detail::kFamilies;
}

}  // namespace tidemark
