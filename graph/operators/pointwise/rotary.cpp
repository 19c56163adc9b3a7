// Rotary position embedding as Hugging Face writes it: x * cos + rotate_half(x) * sin, where
// rotate_half is cat(-x[d/2:], x[:d/2]). One node: of the chain only cos and sin are kept.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace rotary_family_detail {

constexpr std::size_t kX = 0;  // [..., length, width]
constexpr std::size_t kCos = 1;
constexpr std::size_t kSin = 2;  // both broadcast to x

void infer(Inference& inference) {
  const Tensor& x = inference.input(kX);
  inference.require(x.shape.rank() >= 1 && x.shape[-1] % 2 == 0, [&] {
    return fmt::format("the width {} is odd", x.shape.rank() >= 1 ? x.shape[-1] : 1);
  });
  for (std::size_t i : {kCos, kSin}) {
    inference.require(broadcast_shapes(inference, x.shape, inference.input(i).shape) == x.shape,
                      "cos or sin is larger than what it rotates");
    inference.require(!inference.input(i).requires_grad, "cos and sin are constants");
  }
  create_elementwise(inference, x.shape, promote(x.dtype, inference.input(kCos).dtype));
}

// Kernels: x cos, negation of one half, cat, times sin, sum. While the sum is written, both
// products are alive; while the second product is, x cos and the rotated copy:
//   x cos      |=================|
//   -x2            |====|
//   rotated          |======|
//   rot sin               |======|
//   result                   |====...
ForwardKernel forward(const NodeView& node) {
  const Bytes full = node.output().bytes();
  Work work = node.elementwise_work(OperatorClass::kElementwise, 4);
  work.read += full * 4;
  work.written += full * 3 + Bytes(full.count / 2);
  work.launches = 5;
  return {.work = work, .workspace = full * 2};
}

void save(SavedSet& saved) {
  saved.input(kCos);
  saved.input(kSin);
}

// Kernels: gradient * sin, its halves each padded with zeros to the full width and added, gradient
// * cos, and the sum of both: two full tensors live beside the result.
void backward(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor& cos = b.node().input(kCos);
  const Tensor& sin = b.node().input(kSin);
  Tensor result = create_dense(b, "input_gradient", gradient);
  Work work = work_on(OperatorClass::kElementwise, flops_per(6, gradient),
                      {gradient, gradient, cos, sin}, {});
  work.read += result.bytes() * 6;
  work.written = result.bytes() * 6;
  work.launches = 8;
  b.launch({.name = "rotary.backward",
            .reads = {gradient, cos, sin},
            .creates = {result},
            .work = work,
            .workspace = result.bytes() * 2});
  set_fitted_gradient(b, kX, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "rotary",
     .summary = "x cos + rotate_half(x) sin; keeps cos and sin",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace rotary_family_detail

std::span<const OperatorFamily> rotary_families() {
  return rotary_family_detail::kFamilies;
}

}  // namespace tidemark
