// Preconditioners for each side of a matrix: what SOAP and Shampoo share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "policies/optimizers/spec.hpp"

namespace tidemark {

// The square matrices for both sides of a matrix, in elements.
struct SideSquares {
  std::int64_t left = 0;
  std::int64_t right = 0;
  std::int64_t largest = 0;  // elements of the largest single one
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
