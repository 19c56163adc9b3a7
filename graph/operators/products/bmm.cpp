// torch.bmm: a batch of matrix products. matmul of more axes is a composite (ModelBuilder::matmul).
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace bmm_family_detail {

void infer(Inference& inference) {
  const Tensor& a = inference.input(0);
  const Tensor& b = inference.input(1);
  inference.require(a.shape.rank() == 3 && b.shape.rank() == 3,
                    "needs two operands with three axes: batch, rows, columns");
  inference.require(a.shape[0] == b.shape[0], [&] {
    return fmt::format("the batches differ: {} and {}", a.shape[0], b.shape[0]);
  });
  inference.require(a.shape[2] == b.shape[1], [&] {
    return fmt::format("the inner axes differ: {} and {}", a.shape[2], b.shape[1]);
  });
  inference.require(a.dtype == b.dtype, [&] {
    return fmt::format("the operands are {} and {}: cast one of them", name_of(a.dtype),
                       name_of(b.dtype));
  });
  inference.create({a.shape[0], a.shape[1], b.shape[2]}, a.dtype);
}

ForwardKernel forward(const NodeView& node) {
  const Shape& a = node.input(0).shape;
  return {.work = matmul_work(node.output().dtype, a[1], node.output().shape[2], a[2], a[0])};
}

void save(SavedSet& saved) {
  if (saved.node().needs_gradient(1)) saved.input(0);
  if (saved.node().needs_gradient(0)) saved.input(1);
}

// BmmBackward computes mat2 before self.
void backward(BackwardBuilder& b) {
  const Tensor& left = b.node().input(0);
  const Tensor& right = b.node().input(1);
  const Tensor gradient = b.output_gradient();
  const std::int64_t batch = left.shape[0];
  const std::int64_t m = left.shape[1];
  const std::int64_t k = left.shape[2];
  const std::int64_t n = right.shape[2];
  if (b.needs_gradient(1)) {
    const Tensor result = b.create_like("right_gradient", right);
    b.launch({.name = "bmm.right_gradient",
              .reads = {gradient, left},
              .creates = {result},
              .work = matmul_work(left.dtype, k, n, m, batch)});
    b.set_input_gradient(1, result);
  }
  if (b.needs_gradient(0)) {
    const Tensor result = b.create_like("left_gradient", left);
    b.launch({.name = "bmm.left_gradient",
              .reads = {gradient, right},
              .creates = {result},
              .work = matmul_work(left.dtype, m, k, n, batch)});
    b.set_input_gradient(0, result);
  }
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "bmm",
     .summary = "[batch, m, k] times [batch, k, n]; keeps both operands",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace bmm_family_detail

std::span<const OperatorFamily> bmm_families() {
  return bmm_family_detail::kFamilies;
}

}  // namespace tidemark
