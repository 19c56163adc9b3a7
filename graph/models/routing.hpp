// Operators by which a mixture of experts sends tokens to experts and back. Sizes are data: a
// router decides at run time how many tokens each expert gets, here its caller does.
#pragma once

#include "graph/operators/family.hpp"

namespace tidemark {

// The k largest of the last axis (attribute `k`): values, int64 indices. Keeps the indices.
[[nodiscard]] const OperatorFamily& top_k_family();
// int64 [..., classes] of int64 [...]; attribute `classes`.
[[nodiscard]] const OperatorFamily& one_hot_family();
// The places where a tensor is not zero: int64 [count, axes]; attribute `count`.
[[nodiscard]] const OperatorFamily& nonzero_family();
// Zeros of the attributes `shape` and `dtype`.
[[nodiscard]] const OperatorFamily& new_zeros_family();
// x[i] or x[i, j] with int64 indices of one axis each. Keeps the indices.
[[nodiscard]] const OperatorFamily& index_family();
// x.index_add_(0, indices, source): in place. Keeps indices and source.
[[nodiscard]] const OperatorFamily& index_add_family();

}  // namespace tidemark
