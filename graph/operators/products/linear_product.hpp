// Operands and shapes of all families of linear layers: x [..., k] times a weight, plus an
// optional bias [n].
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "graph/operators/family.hpp"

namespace tidemark {

constexpr std::size_t kLinearX = 0;       // [..., k]
constexpr std::size_t kLinearWeight = 1;  // [n, k]; [k, n] with transposed_weight (Conv1D, mm)
constexpr std::size_t kLinearBias = 2;    // [n], optional

// One product of [m, k] with [k, n].
struct LinearExtent {
  std::int64_t m, n, k;
};

[[nodiscard]] LinearExtent linear_extent(const NodeView& node);

// Creates the output [..., n] in the type of x. Fails unless the weight has two axes and takes x's
// features, and a bias has one element for each output feature.
void infer_linear(Inference& inference);

// Emits the kernel that sums the gradient of the output to the gradient of the bias, and hands it
// on; nothing where the bias needs none.
void launch_bias_gradient(BackwardBuilder& backward, std::string_view name, const Tensor& gradient);

}  // namespace tidemark
