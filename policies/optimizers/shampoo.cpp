// Shampoo: a preconditioner for each side of a block (Gupta et al. 2018), as Shi et al. 2023
// distribute it.
#include <algorithm>

#include "graph/operators/kernels.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/matrix_work.hpp"
#include "policies/optimizers/preconditioned.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace shampoo_detail {
namespace {

using enum OptimizerTensor;

constexpr std::int64_t kShampooBlock = 1'024;  // shampoo.py, max_preconditioner_dim

// Elements of the square matrices for one side of a tensor that is cut into blocks.
Elements shampoo_squares(std::int64_t side, std::int64_t other) {
  const std::int64_t whole = side / kShampooBlock;
  const std::int64_t rest = side % kShampooBlock;
  const std::int64_t beside = (other + kShampooBlock - 1) / kShampooBlock;
  return Elements((whole * kShampooBlock * kShampooBlock + rest * rest) * beside);
}

SideSquares shampoo_squares(const Shape& shape) {
  const MatrixSides sides = matrix_sides(shape);
  const std::int64_t block = std::min(sides.large, kShampooBlock);
  return {.left = sides.rows > 1 ? shampoo_squares(sides.rows, sides.columns) : Elements(0),
          .right = sides.columns > 1 ? shampoo_squares(sides.columns, sides.rows) : Elements(0),
          .largest = Elements(block * block)};
}

// Blocks of at most 1,024 by 1,024: factors and their inverse roots; the second moment of the
// grafted Adam and the filtered gradient.
void add_shampoo_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                        std::vector<OptimizerState>& states) {
  states.push_back({kFirstMoment, "filtered_grad", parameter.moment});
  states.push_back({kGrafted, "grafting", parameter.moment});
  const bool has_shape = parameter.shape.rank() > 0;
  add_squares(shampoo_squares(has_shape ? parameter.shape : Shape{parameter.elements.count}),
              states);
}

void add_shampoo_kernels(const OptimizerSpec& /*spec*/, const UpdatedMatrix& matrix,
                         std::vector<MatrixKernel>& kernels) {
  const SideSquares squares = shampoo_squares(matrix.shape);
  const Elements elements = element_count(matrix.shape);
  const Bytes whole = bytes_of(matrix.type, elements);
  kernels.push_back(statistics_kernel(matrix, squares));
  kernels.push_back(refresh_kernel("inverse_roots", squares));
  kernels.push_back({.name = "filter",
                     .reads = {kGradient},
                     .mutates = {kFirstMoment, kGrafted},
                     .work = elementwise_work(matrix.type, elements, 6, whole * 3, whole * 2, 3),
                     .workspace = matrix.converts_gradient ? whole : Bytes(0)});
  kernels.push_back({.name = "precondition",
                     .reads = {kFirstMoment, kLeftBasis, kRightBasis},
                     .work = side_products(matrix, squares),
                     .temporary = whole,
                     .makes = whole});
  kernels.push_back({.name = "graft",
                     .reads = {kFirstMoment, kGrafted},
                     .work = elementwise_work(matrix.type, elements, 6, whole * 3, whole, 4),
                     .temporary = whole});
  kernels.push_back({.name = "update",
                     .mutates = {kWeights},
                     .work = elementwise_work(matrix.type, elements, 2, whole * 2, whole)});
}

}  // namespace
}  // namespace shampoo_detail

const OptimizerAlgorithm& shampoo_optimizer() {
  static constexpr OptimizerAlgorithm kShampoo{
      .name = "shampoo",
      .summary =
          "2 moments and, for each side of a block of at most 1024 x 1024, a factor and its "
          "inverse "
          "root (Gupta et al. 2018, Shi et al. 2023)",
      .forms = {true, false, false},
      .refresh = 1,
      .add_states = shampoo_detail::add_shampoo_states,
      .on_host = false,
      .takes = [](const OptimizerSpec& /*spec*/, const Shape& shape,
                  ParameterUse /*use*/) { return shape.rank() >= 1; },
      .add_matrix_kernels = shampoo_detail::add_shampoo_kernels,
      .beside_matrices = adamw_optimizer,
      .on_flat_parts = "their preconditioners are those of vectors"};
  return kShampoo;
}

}  // namespace tidemark
