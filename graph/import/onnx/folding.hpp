// Pieces of the evaluation of constants that several files share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/import/onnx/onnx_model.hpp"

namespace tidemark::folding {

using Dims = std::vector<std::int64_t>;
using Operands = std::span<const OnnxConstant* const>;
using Folded = std::optional<OnnxConstant>;

// Largest number of elements that is folded: no tensor that a model makes is larger.
inline constexpr std::int64_t kMaxFolded = std::int64_t{1} << 40;

// Counts the elements of a shape; -1 when there are more than kMaxFolded.
[[nodiscard]] std::int64_t count_of(const Dims& dims);
// Makes a constant of unknown content; nothing when it is too large.
[[nodiscard]] Folded shaped(DType dtype, Dims dims);
// Makes room for the content, which the caller fills.
void resize(OnnxConstant& constant);
void copy_element(const OnnxConstant& from, std::size_t source, OnnxConstant& to, std::size_t at);
[[nodiscard]] bool all_known(Operands inputs);
// Row-major steps of `dims`, 0 along axes that are broadcast to `target`.
[[nodiscard]] Dims steps_towards(const Dims& dims, const Dims& target);
// Reads axes from an input (newer operator sets) or an attribute; nothing when the input is
// unknown.
[[nodiscard]] std::optional<Dims> axes_of(const OnnxNode& node, Operands inputs, std::size_t index);

// Calls `visit(position in the result, offset in the operand)` for a walk through `dims` in which
// each axis advances the operand by `steps`.
template <class Visit>
void walk(const Dims& dims, const Dims& steps, std::int64_t start, Visit visit) {
  const std::int64_t count = count_of(dims);
  Dims index(dims.size(), 0);
  std::int64_t offset = start;
  for (std::int64_t at = 0; at < count; ++at) {
    visit(static_cast<std::size_t>(at), static_cast<std::size_t>(offset));
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      offset += steps[axis];
      if (++index[axis] < dims[axis]) break;
      offset -= steps[axis] * dims[axis];
      index[axis] = 0;
    }
  }
}

// Operators that move elements or relabel them (fold_layout.cpp). Their operands are present.
[[nodiscard]] Folded fold_concat(const OnnxNode& node, Operands inputs);
[[nodiscard]] Folded fold_slice(Operands inputs);
[[nodiscard]] Folded fold_gather(const OnnxNode& node, const OnnxConstant& x,
                                 const OnnxConstant& index);
[[nodiscard]] Folded fold_squeeze(const OnnxNode& node, Operands inputs);
[[nodiscard]] Folded fold_unsqueeze(const OnnxNode& node, Operands inputs);
[[nodiscard]] Folded fold_transpose(const OnnxNode& node, const OnnxConstant& x);
[[nodiscard]] Folded fold_expand(const OnnxConstant& x, const OnnxConstant& shape);
[[nodiscard]] Folded fold_tile(const OnnxConstant& x, const OnnxConstant& counts);
[[nodiscard]] Folded fold_shape(const OnnxNode& node, const OnnxConstant& x);
[[nodiscard]] Folded relabelled(const OnnxConstant& x, const std::optional<Dims>& dims);

}  // namespace tidemark::folding
