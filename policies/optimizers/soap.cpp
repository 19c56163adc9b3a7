// SOAP: Adam in the eigenbasis of Shampoo's preconditioners (Vyas et al. 2024).
#include <algorithm>

#include "graph/operators/kernels.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/matrix_work.hpp"
#include "policies/optimizers/preconditioned.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace soap_detail {
namespace {

using enum OptimizerTensor;

constexpr std::int64_t kLargestSoapSide = 10'000;  // soap.py, max_precond_dim

// Elements of a square matrix for a side of SOAP's; longer sides have none.
Elements soap_square(std::int64_t side) {
  return Elements(side > 1 && side <= kLargestSoapSide ? side * side : 0);
}

SideSquares soap_squares(const Shape& shape) {
  const MatrixSides sides = matrix_sides(shape);
  SideSquares squares{.left = soap_square(sides.rows), .right = soap_square(sides.columns)};
  squares.largest = std::max(squares.left, squares.right);
  return squares;
}

void add_soap_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                     std::vector<OptimizerState>& states) {
  states.push_back({kFirstMoment, "exp_avg", parameter.moment});
  states.push_back({kSecondMoment, "exp_avg_sq", parameter.moment});
  add_squares(soap_squares(parameter.shape), states);
}

// The gradient and its mean are turned into the basis, Adam runs there, and its update is turned
// back.
void add_soap_kernels(const OptimizerSpec& /*spec*/, const UpdatedMatrix& matrix,
                      std::vector<MatrixKernel>& kernels) {
  const SideSquares squares = soap_squares(matrix.shape);
  const Elements elements = element_count(matrix.shape);
  const Bytes whole = bytes_of(matrix.type, elements);
  kernels.push_back({.name = "project",
                     .reads = {kGradient, kLeftBasis, kRightBasis},
                     .work = side_products(matrix, squares),
                     .workspace = matrix.converts_gradient ? whole : Bytes(0),
                     .makes = whole});
  kernels.push_back({.name = "moments",
                     .reads = {kGradient, kLeftBasis, kRightBasis},
                     .mutates = {kFirstMoment, kSecondMoment},
                     .work = side_products(matrix, squares),
                     .temporary = whole,
                     .makes = whole});
  kernels.push_back({.name = "project_back",
                     .reads = {kLeftBasis, kRightBasis},
                     .work = side_products(matrix, squares),
                     .makes = whole});
  kernels.push_back({.name = "update",
                     .mutates = {kWeights},
                     .work = elementwise_work(matrix.type, elements, 2, whole * 2, whole)});
  kernels.push_back(statistics_kernel(matrix, squares));
  kernels.push_back(refresh_kernel("bases", squares));
}

}  // namespace
}  // namespace soap_detail

const OptimizerAlgorithm& soap_optimizer() {
  static constexpr OptimizerAlgorithm kSoap{
      .name = "soap",
      .summary =
          "2 moments and, for each side s of a matrix up to 10000, two s x s matrices in fp32 "
          "(Vyas "
          "et al. 2024)",
      .forms = {true, false, false},
      .weight_decay = 0.01,
      .refresh = 10,
      .add_states = soap_detail::add_soap_states,
      .on_host = false,
      .takes = [](const OptimizerSpec& /*spec*/, const Shape& shape,
                  ParameterUse /*use*/) { return shape.rank() >= 2; },
      .add_matrix_kernels = soap_detail::add_soap_kernels,
      .beside_matrices = adamw_optimizer,
      .on_flat_parts = "AdamW updates those"};
  return kSoap;
}

}  // namespace tidemark
