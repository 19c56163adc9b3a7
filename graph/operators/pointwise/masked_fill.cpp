// x.masked_fill(source == 0, value), as causal masks are applied; a source that is bool already is
// the mask itself. torch.nan_to_num makes the mask in backward.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace masked_fill_family_detail {

constexpr std::size_t kX = 0;
constexpr std::size_t kSource = 1;  // broadcasts to x

void infer(Inference& inference) {
  const Tensor& x = inference.input(kX);
  const Shape shape = broadcast_shapes(inference, x.shape, inference.input(kSource).shape);
  inference.require(shape == x.shape, "the mask is larger than what it masks");
  create_elementwise(inference, x.shape, x.dtype);
}

Bytes mask_bytes(const NodeView& node) {
  return bytes_of(DType::kBool, Elements(node.input(kSource).elements().count));
}

bool source_is_mask(const NodeView& node) {
  return node.input(kSource).dtype == DType::kBool;
}

// The comparison makes the mask, in the shape of its source: it is not broadcast in memory.
ForwardKernel forward(const NodeView& node) {
  ForwardKernel kernel{.work = node.elementwise_work(OperatorClass::kElementwise, 1)};
  if (source_is_mask(node)) return kernel;
  kernel.work.read += mask_bytes(node);
  kernel.work.written += mask_bytes(node);
  kernel.work.launches = 2;
  if (!node.output().requires_grad) kernel.workspace = mask_bytes(node);
  return kernel;
}

void save(SavedSet& saved) {
  if (source_is_mask(saved.node())) {
    saved.input(kSource);
  } else {
    saved.extra("mask", saved.node().input(kSource).shape, DType::kBool);
  }
}

void backward(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = create_dense(b, "input_gradient", gradient);
  const Tensor mask = source_is_mask(b.node()) ? b.node().input(kSource) : b.saved("mask");
  b.launch_elementwise("masked_fill.backward", {gradient, mask}, result);
  b.set_input_gradient(kX, result);
}

void infer_replaced(Inference& inference) {
  create_elementwise(inference, inference.input(kX).shape, inference.input(kX).dtype);
}

ForwardKernel forward_replaced(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 3)};
}

void save_input(SavedSet& saved) {
  saved.input(kX);
}

// grad * isfinite(x), which is (|x| != inf) * (x == x): three masks beside the absolute value,
// whose memory the product then takes.
void backward_replaced(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = create_dense(b, "input_gradient", gradient);
  b.launch_elementwise("nan_to_num.backward", {gradient, b.node().input(kX)}, result,
                       OperatorClass::kElementwise, 5, Bytes(0),
                       bytes_of(DType::kBool, Elements(3 * result.elements().count)));
  b.set_input_gradient(kX, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "nan_to_num",
     .summary = "numbers for what is not finite; keeps its input",
     .infer = infer_replaced,
     .forward = forward_replaced,
     .save = save_input,
     .backward = backward_replaced},
    {.name = "masked_fill",
     .summary = "a constant where a buffer is zero; keeps the bool mask",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace masked_fill_family_detail

std::span<const OperatorFamily> masked_fill_families() {
  return masked_fill_family_detail::kFamilies;
}

}  // namespace tidemark
