// Pieces of kernels and gradients that several families share.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "graph/operators/family.hpp"

namespace tidemark {

// Strides of a fresh dense tensor of `shape` whose axes lie in memory in the order of `like`:
// elementwise kernels and empty_like keep their input's memory order. Row-major where an axis of
// `like` is expanded.
[[nodiscard]] Strides dense_strides(const Shape& shape, const Strides& like);

// A Python number as an operand on a CPU: a tensor of 8 bytes, converted to the type of the other
// operand. On CUDA it is an argument of the kernel. Measured on 1.13.1.
struct ScalarOperand {
  Bytes as_given;
  Bytes converted;
};
[[nodiscard]] ScalarOperand scalar_operand(const FrameworkRules& rules, DType dtype);
// Both of them: what a kernel needs that keeps neither.
[[nodiscard]] Bytes scalar_temporaries(const FrameworkRules& rules, DType dtype);

// Bytes behind a tensor: an expanded axis is read once.
[[nodiscard]] Bytes traffic(const Tensor& tensor);

[[nodiscard]] inline Flops flops_per(double count, const Tensor& tensor) {
  return Flops(count * static_cast<double>(tensor.elements().count));
}

// Work that reads and writes each tensor once.
[[nodiscard]] Work work_on(OperatorClass op_class, Flops flops, std::initializer_list<Tensor> read,
                           std::initializer_list<Tensor> written);

// `batch` products of [m, k] with [k, n]; operands of `dtype` pass through memory once.
[[nodiscard]] Work matmul_work(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                               std::int64_t batch);

// The first input of a node that is neither absent nor broadcast gives an elementwise output its
// memory order; creates the output of `shape`.
void create_elementwise(Inference& inference, const Shape& shape, DType dtype);

// A fresh gradient in the memory order of `like`.
[[nodiscard]] Tensor create_dense(BackwardBuilder& backward, std::string_view name,
                                  const Tensor& like);

// torch's Tensor.reshape of a gradient: a view, or a copy where the strides demand one.
[[nodiscard]] Tensor reshaped(BackwardBuilder& backward, const Tensor& tensor, const Shape& shape);

// Hands a gradient to an input as the autograd engine does: summed over the axes that were
// broadcast and converted to the input's type.
void set_fitted_gradient(BackwardBuilder& backward, std::size_t index, const Tensor& gradient);

// An axis counted from the end when negative; fails when `rank` axes do not have it.
[[nodiscard]] int checked_axis(const Inference& inference, std::int64_t axis, int rank);

[[nodiscard]] Shape shape_from(const std::vector<std::int64_t>& extents);

// The outputs of these are views: there is no kernel to describe.
[[nodiscard]] ForwardKernel no_kernel(const NodeView& node);
void save_nothing(SavedSet& saved);
// For families whose outputs never require a gradient.
void no_backward(BackwardBuilder& backward);
// The gradient of the output is the gradient of input 0.
void pass_gradient(BackwardBuilder& backward);

}  // namespace tidemark
