#include "policies/optimizers/preconditioned.hpp"

#include <algorithm>
#include <cmath>

#include "graph/operators/kernels.hpp"
#include "policies/optimizers/matrix_work.hpp"

namespace tidemark {

namespace preconditioned_detail {
namespace {

// Scratch of a decomposition of one side in fp32, in matrices of that side: the product with the
// basis, and the two factors of its decomposition.
constexpr std::int64_t kScratchMatrices = 3;

Bytes in_fp32(Elements elements) {
  return bytes_of(DType::kFloat32, elements);
}

}  // namespace
}  // namespace preconditioned_detail

void add_squares(const SideSquares& squares, std::vector<OptimizerState>& states) {
  using enum OptimizerTensor;
  const auto add = [&](OptimizerTensor tensor, std::string_view suffix, Elements elements) {
    if (elements > Elements(0))
      states.push_back({tensor, suffix, preconditioned_detail::in_fp32(elements)});
  };
  add(kLeftFactor, "left_factor", squares.left);
  add(kRightFactor, "right_factor", squares.right);
  add(kLeftBasis, "left_basis", squares.left);
  add(kRightBasis, "right_basis", squares.right);
}

Work side_products(const UpdatedMatrix& matrix, const SideSquares& squares) {
  const Elements elements = element_count(matrix.shape);
  const auto a = static_cast<double>(squares.left.count);
  const auto b = static_cast<double>(squares.right.count);
  const auto count = static_cast<double>(elements.count);
  const std::int64_t side = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::sqrt(static_cast<double>(squares.largest.count))));
  Work work{.op_class = OperatorClass::kMatmul, .dtype = matrix.type, .launches = 2};
  work.flops = Flops(2 * count * (std::sqrt(a) + std::sqrt(b)));
  work.read = bytes_of(matrix.type, elements) * 2 +
              preconditioned_detail::in_fp32(squares.left + squares.right);
  work.written = bytes_of(matrix.type, elements) * 2;
  work.extent = {side, elements.count / side, side, 1};
  return work;
}

// Bases are refreshed by a power iteration and a QR decomposition of each side.
MatrixKernel refresh_kernel(std::string_view name, const SideSquares& squares) {
  using enum OptimizerTensor;
  const auto side =
      static_cast<std::int64_t>(std::sqrt(static_cast<double>(squares.largest.count)));
  return {.name = name,
          .reads = {kLeftFactor, kRightFactor},
          .mutates = {kLeftBasis, kRightBasis},
          .work = decomposition_work(side, side),
          .temporary = preconditioned_detail::in_fp32(squares.largest) *
                       preconditioned_detail::kScratchMatrices,
          .refreshes = true};
}

MatrixKernel statistics_kernel(const UpdatedMatrix& matrix, const SideSquares& squares) {
  using enum OptimizerTensor;
  return {.name = "statistics",
          .reads = {kGradient},
          .mutates = {kLeftFactor, kRightFactor},
          .work = side_products(matrix, squares),
          .temporary = preconditioned_detail::in_fp32(squares.largest)};
}

}  // namespace tidemark
