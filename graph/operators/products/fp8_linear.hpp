// Linear layers whose matrix products run on fp8 copies of their operands.
//
//   x [..., k], weight [n, k], bias (optional), state (optional: scales and amax history)
//
// As TransformerEngine's Linear (2.20, transformer_engine/pytorch/module/linear.py): forward makes
// a copy of x for its own product and another, transposed, that backward reads; likewise of the
// weight, whose copies stay until backward. Backward makes both copies of the incoming gradient.
// With the attribute "high_precision" as torchao's float8 training
// (torchao/float8/float8_linear.py): x and the weight themselves are kept, and backward makes their
// copies again.
#pragma once

#include <cstdint>

#include "graph/operators/family.hpp"

namespace tidemark {

// Scales beside the elements of an fp8 tensor: one of `bytes` for each `block` elements; none where
// one scale serves the whole tensor. Attributes "scale_block" and "scale_bytes" of the node, and
// "weight_scale_block" for weights.
// "reads_twice" says that the largest magnitude is found before the copy is made.
[[nodiscard]] const OperatorFamily& fp8_linear_family();

}  // namespace tidemark
