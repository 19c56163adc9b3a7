// Evaluates nodes whose operands are all constants: exporters write the arithmetic of shapes as
// operators (Shape, Gather, Mul, Concat, ...), more than half of all nodes.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "graph/import/onnx/onnx_model.hpp"

namespace tidemark {

// Whether `fold` evaluates an operator of this name.
[[nodiscard]] bool is_foldable(std::string_view op);

// Computes the node's first output from `inputs` (null where absent). The content is unknown when
// an operand's is or when there are more than kKnownElements elements; the shape is right in any
// case. Nothing when the shape depends on unknown content or the operands do not fit the operator.
[[nodiscard]] std::optional<OnnxConstant> fold(const OnnxNode& node,
                                               std::span<const OnnxConstant* const> inputs);

[[nodiscard]] OnnxConstant integers_constant(std::vector<std::int64_t> values);

// Broadcasts two shapes by NumPy's rule; nothing when they do not broadcast.
[[nodiscard]] std::optional<std::vector<std::int64_t>> broadcast_dims(
    const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b);

// Returns the shape that ONNX's Reshape makes of `dims`: 0 copies an extent (unless `allow_zero`),
// -1 is inferred. Nothing when the elements do not fill it.
[[nodiscard]] std::optional<std::vector<std::int64_t>> reshaped_dims(
    const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& wanted,
    bool allow_zero);

// One axis of ONNX's Slice, with its clamping: elements start, start + step, ... (count of them).
struct SliceRange {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};
[[nodiscard]] SliceRange slice_range(std::int64_t extent, std::int64_t start, std::int64_t end,
                                     std::int64_t step);

}  // namespace tidemark
