// Preconditioners for each side of a matrix: what SOAP and Shampoo share.
#pragma once

#include <string_view>
#include <vector>

#include "graph/core/units.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {

// The square matrices for both sides of a matrix.
struct SideSquares {
  Elements left;
  Elements right;
  Elements largest;  // elements of the largest single one
};

// Adds factor and basis, or inverse root, of each side that has some, in fp32.
void add_squares(const SideSquares& squares, std::vector<OptimizerState>& states);
// Returns a pass of products of a matrix with the squares of its sides.
[[nodiscard]] Work side_products(const UpdatedMatrix& matrix, const SideSquares& squares);
// Returns the kernel that adds a gradient to the factors.
[[nodiscard]] MatrixKernel statistics_kernel(const UpdatedMatrix& matrix,
                                             const SideSquares& squares);
// Returns the kernel that refreshes bases or roots, by a decomposition of each side.
[[nodiscard]] MatrixKernel refresh_kernel(std::string_view name, const SideSquares& squares);

}  // namespace tidemark
