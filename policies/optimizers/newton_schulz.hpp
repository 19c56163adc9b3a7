// Newton and Schulz's iteration, by which Muon orthogonalises the update of a matrix.
#pragma once

#include "graph/core/units.hpp"
#include "graph/ir/tensor.hpp"

namespace tidemark {

// Returns the bytes that are alive at once while Newton and Schulz's iteration orthogonalises a
// matrix of n elements and m rows or columns, whichever are fewer, in bf16: the old X, a X, (b A +
// c A A) X and their sum, and the two m by m matrices: 4 * 2 n + 2 * 2 m m.
[[nodiscard]] Bytes newton_schulz_bytes(const Shape& shape);
[[nodiscard]] Flops newton_schulz_flops(const Shape& shape);

}  // namespace tidemark
