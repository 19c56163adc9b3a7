// The work of kernels on whole matrices: products, decompositions, elementwise passes.
#pragma once

#include <cstdint>

#include "graph/ir/tensor.hpp"
#include "graph/ir/work.hpp"
#include "policies/optimizers/algorithm.hpp"

namespace tidemark {

// A tensor as a matrix: the first axis and all others; `small` and `large` are the same two sides
// by length.
struct MatrixSides {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t small = 1;
  std::int64_t large = 1;
};
[[nodiscard]] MatrixSides matrix_sides(const Shape& shape);

// Returns a kernel that reads and writes so many bytes and computes so many operations on each of
// `elements`.
[[nodiscard]] Work elementwise_work(DType type, Elements elements, double flops, Bytes read,
                                    Bytes written, int launches = 1);
// Returns the singular values and both bases of a matrix in fp32: 6 a b^2 + 20 b^3 operations
// (Golub and Van Loan, 8.6) for sides a >= b.
[[nodiscard]] Work decomposition_work(std::int64_t large, std::int64_t small);

}  // namespace tidemark
