#include "graph/operators/pointwise/fake_quantise.hpp"

#include "graph/operators/kernels.hpp"

namespace tidemark {
namespace fake_quantise_detail {
namespace {

void infer(Inference& inference) {
  const Tensor& x = inference.input(0);
  create_elementwise(inference, x.shape, x.dtype);
}

// The observer's reduction and the scale's few small kernels, then the rounding.
ForwardKernel forward(const NodeView& node) {
  const Tensor& x = node.input(0);
  Work work = work_on(OperatorClass::kElementwise, flops_per(6, x), {x, x}, {node.output()});
  work.written += bytes_of(DType::kBool, x.elements());
  work.launches = 5;
  return {.work = work};
}

// fake_quantize_per_tensor_affine_cachemask: whether each element was inside the grid.
void save(SavedSet& saved) {
  if (saved.node().needs_gradient(0)) {
    saved.extra("inside", saved.node().input(0).shape, DType::kBool);
  }
}

void backward(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = create_dense(b, "input_gradient", gradient);
  b.launch_elementwise("fake_quantise.backward", {gradient, b.saved("inside")}, result);
  b.set_input_gradient(0, result);
}

constexpr OperatorFamily kFamily{.name = "fake_quantise",
                                 .summary = "rounds to a grid and back; keeps a byte per element",
                                 .infer = infer,
                                 .forward = forward,
                                 .save = save,
                                 .backward = backward};

}  // namespace
}  // namespace fake_quantise_detail

const OperatorFamily& fake_quantise_family() {
  return fake_quantise_detail::kFamily;
}

}  // namespace tidemark
