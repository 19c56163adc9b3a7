// Files whose batch is changed although the exporter froze it into constants: the shapes of
// nn.MultiheadAttention's reshapes, for example, are Python integers.
#pragma once

#include <optional>
#include <vector>

#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {

// Whether the Reshape that is lowered makes heads of nn.MultiheadAttention: [length, batch * heads,
// width] of a third of its packed projection, which is transposed next.
[[nodiscard]] bool is_attention_head(const OnnxLowering& l);

// Returns the shape for a Reshape of `dims` whose operand `wanted` holds the file's batch; nothing
// when the batch does not change or `wanted` is right as it is. Compared with the shapes at the
// file's batch, the axes of the input that grew are the batch; the batch goes to the axis of the
// target that
//   1. stands at the same place and was the batch alone,
//   2. is the middle one of an attention head's [length, batch * heads, width],
//   3. was as long as the batch, if there is one such axis,
//   4. covers the batch in memory, the outer one of two.
[[nodiscard]] std::optional<std::vector<std::int64_t>> rebatched_reshape(
    OnnxLowering& lowering, const std::vector<std::int64_t>& dims,
    const std::vector<std::int64_t>& wanted, bool allow_zero);

// Returns the operand of Expand with the new batch, if its first extent was the batch.
[[nodiscard]] std::vector<std::int64_t> rebatched_expand(OnnxLowering& lowering,
                                                         const std::vector<std::int64_t>& dims,
                                                         std::vector<std::int64_t> wanted);

}  // namespace tidemark
