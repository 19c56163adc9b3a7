// Operators by which a mixture of experts sends tokens to experts and back. Their sizes are
// attributes: in torch a router decides at run time how many tokens each expert gets, here its
// caller does.
#pragma once

#include "graph/operators/family.hpp"

namespace tidemark {

// torch.topk: the k largest of the last axis (attribute `k`) as values and int64 indices. Keeps the
// indices.
[[nodiscard]] const OperatorFamily& top_k_family();
// torch.one_hot: int64 [..., classes] of int64 [...]; attribute `classes`.
[[nodiscard]] const OperatorFamily& one_hot_family();
// torch.nonzero: the places where a tensor is not zero, int64 [count, axes]; attribute `count`.
[[nodiscard]] const OperatorFamily& nonzero_family();
// torch.zeros of the attributes `shape` and `dtype`.
[[nodiscard]] const OperatorFamily& new_zeros_family();
// x[i] or x[i, j] with int64 indices of one axis each. Keeps the indices.
[[nodiscard]] const OperatorFamily& index_family();
// x.index_add_(0, indices, source): in place. Keeps indices and source.
[[nodiscard]] const OperatorFamily& index_add_family();

}  // namespace tidemark
