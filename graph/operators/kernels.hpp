// Pieces of kernels and gradients that several families share.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "graph/operators/family.hpp"

namespace tidemark {

// Returns the strides of a fresh dense tensor of `shape` whose axes lie in memory in the order of
// `like`: elementwise kernels and empty_like keep their input's memory order. Row-major where an
// axis of `like` is expanded.
[[nodiscard]] Strides dense_strides(const Shape& shape, const Strides& like);

// Whether its elements fill its memory, in whatever order of the axes
// (torch's is_non_overlapping_and_dense).
[[nodiscard]] bool is_dense(const Tensor& tensor);

// A Python number as an operand on a CPU: a tensor of 8 bytes, converted to the type of the other
// operand. On CUDA it is an argument of the kernel. Measured on 1.13.1.
struct ScalarOperand {
  Bytes as_given;
  Bytes converted;
};
[[nodiscard]] ScalarOperand scalar_operand(const FrameworkRules& rules, DType dtype);
// Returns the bytes of both tensors of a ScalarOperand, for a kernel that keeps neither.
[[nodiscard]] Bytes scalar_temporaries(const FrameworkRules& rules, DType dtype);

// Returns the bytes in memory behind a tensor: an expanded axis is read once.
[[nodiscard]] Bytes traffic(const Tensor& tensor);

[[nodiscard]] inline Flops flops_per(double count, const Tensor& tensor) {
  return Flops(count * static_cast<double>(tensor.elements().count));
}

// Returns the work of a kernel that reads and writes each tensor once.
[[nodiscard]] Work work_on(OperatorClass op_class, Flops flops, std::initializer_list<Tensor> read,
                           std::initializer_list<Tensor> written);

// Returns the work of `batch` products of [m, k] with [k, n]; operands of `dtype` pass through
// memory once.
[[nodiscard]] Work matmul_work(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                               std::int64_t batch);

// Creates the output of `shape` of an elementwise operator. Its memory order is that of the first
// input that is neither absent nor broadcast.
void create_elementwise(Inference& inference, const Shape& shape, DType dtype);

// Returns the probability `p` with which dropout zeroes what it drops: elements, channels or
// samples. With p = 0 it returns its input itself.
[[nodiscard]] double dropout_probability(const Attributes& attributes);
// Returns the probability of dropout, and requires that it lies in [0, 1).
[[nodiscard]] double required_dropout_probability(Inference& inference);

// Creates a fresh gradient in the memory order of `like`.
[[nodiscard]] Tensor create_dense(BackwardBuilder& backward, std::string_view name,
                                  const Tensor& like);

// Reshapes a gradient as torch's Tensor.reshape: a view, or a copy where the strides demand one.
[[nodiscard]] Tensor reshaped(BackwardBuilder& backward, const Tensor& tensor, const Shape& shape);

// Whether the two inner axes of three lie transposed in memory: rows that torch.matmul of 1.13
// multiplies in batches rather than copies (should_fold).
[[nodiscard]] bool has_transposed_rows(const Tensor& tensor);

// Hands a gradient to an input as the autograd engine does: summed over the axes that were
// broadcast and converted to the input's type. The engine does so when the node has returned, for
// one operand after the other (validate_outputs): all gradients are made before.
void set_fitted_gradient(BackwardBuilder& backward, std::size_t index, const Tensor& gradient);

// Returns an axis counted from the front, also for a negative one; fails when `rank` axes do not
// have it.
[[nodiscard]] int checked_axis(const Inference& inference, std::int64_t axis, int rank);

[[nodiscard]] Shape shape_from(const std::vector<std::int64_t>& extents);

// Returns no kernel, for families whose outputs are views.
[[nodiscard]] ForwardKernel no_kernel(const NodeView& node);
void save_nothing(SavedSet& saved);
// Emits nothing, for families whose outputs never require a gradient.
void no_backward(BackwardBuilder& backward);
// Passes the gradient of the output to input 0 as it is.
void pass_gradient(BackwardBuilder& backward);

}  // namespace tidemark
