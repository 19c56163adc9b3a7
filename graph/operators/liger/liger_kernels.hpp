// Liger-Kernel's Triton kernels for the parts of a transformer's block (its loss is
// losses/chunked_losses.hpp). Source: Liger-Kernel, ops/rms_norm.py, swiglu.py, geglu.py, rope.py.
//
// Peaks of Liger's own benchmark on an A100 leave no room for copies: its rotary embedding of 32 +
// 8 heads of 256 and 2,048 tokens in bf16 takes 90.1 MiB, of which queries, keys and their
// gradients are 80, cos and sin 2, and cuBLAS's workspace 8.1.
#pragma once

#include "graph/ir/operator_family.hpp"

namespace tidemark {

// Inputs: x [..., width], weight [width]. Keeps x and one fp32 number per row; the gradient of x is
// written over the incoming one. Attributes: `keeps_gradient` makes a gradient of its own instead,
// `multiprocessors` of the device sum the weight's gradient in one row of fp32 each.
[[nodiscard]] const OperatorFamily& liger_rms_norm_family();
// Inputs: gate and up of one shape; returns act(gate) * up. Keeps both and writes their gradients
// over them.
[[nodiscard]] const OperatorFamily& liger_glu_family();
// Inputs: x [batch, heads, length, width], cos, sin. Rotates x in place where its tokens lie in
// memory before its heads, else a copy that does; likewise in backward.
[[nodiscard]] const OperatorFamily& liger_rope_family();

}  // namespace tidemark
