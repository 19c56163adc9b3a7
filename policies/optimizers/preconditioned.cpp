// Optimizers with a preconditioner for each side of a matrix: Vyas et al.'s SOAP and Gupta et al.'s
// Shampoo as Shi et al. distribute it.
#include <algorithm>
#include <cmath>

#include "graph/operators/kernels.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/matrix_work.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace preconditioned_detail {
namespace {

using enum OptimizerTensor;

constexpr std::int64_t kLargestSoapSide = 10'000;  // soap.py, max_precond_dim
constexpr std::int64_t kShampooBlock = 1'024;      // shampoo.py, max_preconditioner_dim
// Scratch of a decomposition of one side in fp32, in matrices of that side: the product with the
// basis, and the two factors of its decomposition.
constexpr std::int64_t kScratchMatrices = 3;

// Elements of a square matrix for a side of SOAP's; longer sides have none.
std::int64_t soap_square(std::int64_t side) {
  return side > 1 && side <= kLargestSoapSide ? side * side : 0;
}

// Elements of the square matrices for one side of a tensor that is cut into blocks.
std::int64_t shampoo_squares(std::int64_t side, std::int64_t other) {
  const std::int64_t whole = side / kShampooBlock;
  const std::int64_t rest = side % kShampooBlock;
  const std::int64_t beside = (other + kShampooBlock - 1) / kShampooBlock;
  return (whole * kShampooBlock * kShampooBlock + rest * rest) * beside;
}

// The squares for both sides of a matrix.
struct Squares {
  std::int64_t left = 0;
  std::int64_t right = 0;
  std::int64_t largest = 0;  // elements of the largest single one
};

Squares soap_squares(const Shape& shape) {
  const MatrixSides sides = matrix_sides(shape);
  Squares squares{.left = soap_square(sides.rows), .right = soap_square(sides.columns)};
  squares.largest = std::max(squares.left, squares.right);
  return squares;
}

Squares shampoo_squares(const Shape& shape) {
  const MatrixSides sides = matrix_sides(shape);
  const std::int64_t block = std::min(sides.large, kShampooBlock);
  return {.left = sides.rows > 1 ? shampoo_squares(sides.rows, sides.columns) : 0,
          .right = sides.columns > 1 ? shampoo_squares(sides.columns, sides.rows) : 0,
          .largest = block * block};
}

void add_squares(const Squares& squares, std::vector<OptimizerState>& states) {
  const auto add = [&](OptimizerTensor tensor, std::string_view suffix, std::int64_t elements) {
    if (elements > 0)
      states.push_back({tensor, suffix, bytes_of(DType::kFloat32, Elements(elements))});
  };
  add(kLeftFactor, "left_factor", squares.left);
  add(kRightFactor, "right_factor", squares.right);
  add(kLeftBasis, "left_basis", squares.left);
  add(kRightBasis, "right_basis", squares.right);
}

void add_soap_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                     std::vector<OptimizerState>& states) {
  states.push_back({kFirstMoment, "exp_avg", parameter.moment});
  states.push_back({kSecondMoment, "exp_avg_sq", parameter.moment});
  add_squares(soap_squares(parameter.shape), states);
}

// Blocks of at most 1,024 by 1,024: factors and their inverse roots; the second moment of the
// grafted Adam and the filtered gradient.
void add_shampoo_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                        std::vector<OptimizerState>& states) {
  states.push_back({kFirstMoment, "filtered_grad", parameter.moment});
  states.push_back({kGrafted, "grafting", parameter.moment});
  const bool has_shape = parameter.shape.rank() > 0;
  add_squares(shampoo_squares(has_shape ? parameter.shape : Shape{parameter.elements}), states);
}

Bytes in_fp32(std::int64_t elements) {
  return bytes_of(DType::kFloat32, Elements(elements));
}

// A pass of products of a matrix with the squares of its sides.
Work side_products(const UpdatedMatrix& matrix, const Squares& squares) {
  const std::int64_t elements = element_count(matrix.shape);
  const auto a = static_cast<double>(squares.left);
  const auto b = static_cast<double>(squares.right);
  const auto count = static_cast<double>(elements);
  const std::int64_t side = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::sqrt(static_cast<double>(squares.largest))));
  Work work{.op_class = OperatorClass::kMatmul, .dtype = matrix.type, .launches = 2};
  work.flops = Flops(2 * count * (std::sqrt(a) + std::sqrt(b)));
  work.read = bytes_of(matrix.type, Elements(elements)) * 2 + in_fp32(squares.left + squares.right);
  work.written = bytes_of(matrix.type, Elements(elements)) * 2;
  work.extent = {side, elements / side, side, 1};
  return work;
}

// Bases are refreshed by a power iteration and a QR decomposition of each side.
MatrixKernel refresh_kernel(std::string_view name, const Squares& squares) {
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(squares.largest)));
  return {.name = name,
          .reads = {kLeftFactor, kRightFactor},
          .mutates = {kLeftBasis, kRightBasis},
          .work = decomposition_work(side, side),
          .temporary = in_fp32(kScratchMatrices * squares.largest),
          .refreshes = true};
}

MatrixKernel statistics_kernel(const UpdatedMatrix& matrix, const Squares& squares) {
  return {.name = "statistics",
          .reads = {kGradient},
          .mutates = {kLeftFactor, kRightFactor},
          .work = side_products(matrix, squares),
          .temporary = in_fp32(squares.largest)};
}

// The gradient and its mean are turned into the basis, Adam runs there, and its update is turned
// back.
void add_soap_kernels(const OptimizerSpec& /*spec*/, const UpdatedMatrix& matrix,
                      std::vector<MatrixKernel>& kernels) {
  const Squares squares = soap_squares(matrix.shape);
  const std::int64_t elements = element_count(matrix.shape);
  const Bytes whole = bytes_of(matrix.type, Elements(elements));
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

void add_shampoo_kernels(const OptimizerSpec& /*spec*/, const UpdatedMatrix& matrix,
                         std::vector<MatrixKernel>& kernels) {
  const Squares squares = shampoo_squares(matrix.shape);
  const std::int64_t elements = element_count(matrix.shape);
  const Bytes whole = bytes_of(matrix.type, Elements(elements));
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
}  // namespace preconditioned_detail

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
      .add_states = preconditioned_detail::add_soap_states,
      .on_host = false,
      .takes = [](const OptimizerSpec& /*spec*/, const Shape& shape,
                  ParameterUse /*use*/) { return shape.rank() >= 2; },
      .add_matrix_kernels = preconditioned_detail::add_soap_kernels,
      .beside_matrices = adamw_optimizer,
      .on_flat_parts = "AdamW updates those"};
  return kSoap;
}

const OptimizerAlgorithm& shampoo_optimizer() {
  static constexpr OptimizerAlgorithm kShampoo{
      .name = "shampoo",
      .summary =
          "2 moments and, for each side of a block of at most 1024 x 1024, a factor and its "
          "inverse "
          "root (Gupta et al. 2018, Shi et al. 2023)",
      .forms = {true, false, false},
      .refresh = 1,
      .add_states = preconditioned_detail::add_shampoo_states,
      .on_host = false,
      .takes = [](const OptimizerSpec& /*spec*/, const Shape& shape,
                  ParameterUse /*use*/) { return shape.rank() >= 1; },
      .add_matrix_kernels = preconditioned_detail::add_shampoo_kernels,
      .beside_matrices = adamw_optimizer,
      .on_flat_parts = "their preconditioners are those of vectors"};
  return kShampoo;
}

}  // namespace tidemark
