// An operator family: everything that is known about one kind of autograd node, in one file each.
//
//   infer     shape rule; creates the outputs
//   forward   work of the forward kernel and its workspace
//   save      what autograd keeps for backward
//   backward  the kernels of the backward node, in the order in which PyTorch runs them
//
// Rules follow PyTorch; where versions differ, FrameworkRules says how (operators/framework.hpp).
#pragma once

#include <span>
#include <string_view>

#include "graph/ir/inference.hpp"
#include "graph/ir/operator_family.hpp"
#include "graph/operators/backward_builder.hpp"
#include "graph/operators/framework.hpp"
#include "graph/operators/node_view.hpp"

namespace tidemark {

// Finds a family by name, for readers of files. Null when unknown.
[[nodiscard]] const OperatorFamily* find_family(std::string_view name);
[[nodiscard]] std::span<const OperatorFamily* const> all_families();

// Broadcasts two shapes and throws the user's error when they do not fit.
[[nodiscard]] Shape broadcast_shapes(const Inference& inference, const Shape& a, const Shape& b);
[[nodiscard]] DType promote(DType a, DType b);  // the wider of two floating types
// The type of a result of two operands: floats before integers, then tensors with axes before those
// without (torch.result_type), then the wider one.
[[nodiscard]] DType result_type(const Tensor& a, const Tensor& b);

}  // namespace tidemark
