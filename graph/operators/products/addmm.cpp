// Matrix products of two activations added to a third tensor: torch.addmm and torch.baddbmm.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace addmm_family_detail {

constexpr std::size_t kAdded = 0;  // broadcasts to the product
constexpr std::size_t kLeft = 1;   // [batch..., m, k]
constexpr std::size_t kRight = 2;  // [batch..., k, n]

void infer_product(Inference& inference, int rank) {
  const Tensor& a = inference.input(kLeft);
  const Tensor& b = inference.input(kRight);
  inference.require(a.shape.rank() == rank && b.shape.rank() == rank,
                    [&] { return fmt::format("needs operands with {} axes", rank); });
  inference.require(rank == 2 || a.shape[0] == b.shape[0], [&] {
    return fmt::format("the batches differ: {} and {}", a.shape[0], b.shape[0]);
  });
  inference.require(a.shape[-1] == b.shape[-2], [&] {
    return fmt::format("the inner axes differ: {} and {}", a.shape[-1], b.shape[-2]);
  });
  inference.require(a.dtype == b.dtype, [&] {
    return fmt::format("the operands are {} and {}: cast one of them", name_of(a.dtype),
                       name_of(b.dtype));
  });
  Shape result = a.shape;
  result[-1] = b.shape[-1];
  const Shape sum = broadcast_shapes(inference, result, inference.input(kAdded).shape);
  inference.require(sum == result, "what is added is larger than the product");
  inference.create(result, a.dtype);
}

void infer_addmm(Inference& inference) {
  infer_product(inference, 2);
}

void infer_baddbmm(Inference& inference) {
  infer_product(inference, 3);
}

Work product_work(const Tensor& result, std::int64_t inner) {
  const std::int64_t batch = result.shape.rank() == 3 ? result.shape[0] : 1;
  return matmul_work(result.dtype, result.shape[-2], result.shape[-1], inner, batch);
}

ForwardKernel forward(const NodeView& node) {
  ForwardKernel kernel{.work = product_work(node.output(), node.input(kLeft).shape[-1])};
  kernel.work.read += traffic(node.input(kAdded));
  return kernel;
}

void save(SavedSet& saved) {
  if (saved.node().needs_gradient(kRight)) saved.input(kLeft);
  if (saved.node().needs_gradient(kLeft)) saved.input(kRight);
}

// A gradient that is multiplied by alpha is a tensor of its own before.
Bytes unscaled(const NodeView& node, const Tensor& gradient) {
  return node.attributes().number("alpha", 1) == 1 ? Bytes(0) : gradient.bytes();
}

// The added operand receives the incoming gradient itself.
void backward(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor& left = b.node().input(kLeft);
  const Tensor& right = b.node().input(kRight);
  const std::string family(b.node().family_name());
  if (b.needs_gradient(kLeft)) {
    const Tensor result = b.create_like("left_gradient", left);
    b.launch({.name = family + ".left_gradient",
              .reads = {gradient, right},
              .creates = {result},
              .work = product_work(result, right.shape[-1]),
              .temporary = unscaled(b.node(), result)});
    b.set_input_gradient(kLeft, result);
  }
  if (b.needs_gradient(kRight)) {
    const Tensor result = b.create_like("right_gradient", right);
    b.launch({.name = family + ".right_gradient",
              .reads = {gradient, left},
              .creates = {result},
              .work = product_work(result, left.shape[-2]),
              .temporary = unscaled(b.node(), result)});
    b.set_input_gradient(kRight, result);
  }
  set_fitted_gradient(b, kAdded, gradient);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "addmm",
     .summary = "c + a b of matrices; keeps a and b",
     .infer = infer_addmm,
     .forward = forward,
     .save = save,
     .backward = backward},
    {.name = "baddbmm",
     .summary = "c + a b of batches of matrices; keeps a and b",
     .infer = infer_baddbmm,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace addmm_family_detail

std::span<const OperatorFamily> addmm_families() {
  return addmm_family_detail::kFamilies;
}

}  // namespace tidemark
