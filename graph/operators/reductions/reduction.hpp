// Shapes of tensors whose axes are reduced.
#pragma once

#include <array>
#include <vector>

#include "graph/operators/family.hpp"

namespace tidemark {

// Returns the axes that disappear; all of them when the attribute `axes` is empty.
[[nodiscard]] std::array<bool, kMaxRank> reduced_axes(const std::vector<std::int64_t>& axes,
                                                      int rank);

// Returns the input's shape without the axes in the attribute `axes`, or with extent 1 there
// (`keepdim`). Fails on an axis that does not exist.
[[nodiscard]] Shape reduced_shape(const Inference& inference);

// Returns the gradient seen in the input's shape, repeated along the reduced axes without a copy.
[[nodiscard]] Tensor expanded_gradient(const BackwardBuilder& backward);

}  // namespace tidemark
