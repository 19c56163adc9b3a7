// Adam on gradients of low rank: Zhao et al.'s GaLore and Zhu et al.'s APOLLO, for the matrices of
// hidden layers; all other parameters have AdamW.
#include <algorithm>

#include "graph/operators/kernels.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/matrix_work.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace low_rank_detail {
namespace {

using enum OptimizerTensor;

// A projection to as many dimensions as the smaller side has would save nothing.
bool takes(const OptimizerSpec& spec, const Shape& shape, ParameterUse use) {
  return use == ParameterUse::kMatrix && shape.rank() == 2 && spec.rank < matrix_sides(shape).small;
}

// Two moments of the projected gradient, [larger side, rank], and the projector, [rank, smaller
// side].
void add_states(const OptimizerSpec& spec, const OptimizedParameter& parameter,
                std::vector<OptimizerState>& states) {
  const MatrixSides sides = matrix_sides(parameter.shape);
  const Bytes moment = bytes_of(parameter.type, Elements(sides.large * spec.rank));
  if (parameter.counter > Bytes(0)) states.push_back({kStep, "step", parameter.counter});
  states.push_back(
      {kProjector, "projector", bytes_of(parameter.type, Elements(sides.small * spec.rank))});
  states.push_back({kFirstMoment, "exp_avg", moment});
  states.push_back({kSecondMoment, "exp_avg_sq", moment});
}

Bytes low_rank_bytes(const OptimizerSpec& spec, const UpdatedMatrix& matrix) {
  return bytes_of(matrix.type, Elements(matrix_sides(matrix.shape).large * spec.rank));
}

Work product(const OptimizerSpec& spec, const UpdatedMatrix& matrix) {
  const MatrixSides sides = matrix_sides(matrix.shape);
  return matmul_work(matrix.type, sides.large, spec.rank, sides.small, 1);
}

// The projected gradient is a variable; Adam's root and denominator are of its size.
void add_projected_moments(const OptimizerSpec& spec, const UpdatedMatrix& matrix,
                           std::vector<MatrixKernel>& kernels) {
  const Bytes whole = bytes_of(matrix.type, Elements(element_count(matrix.shape)));
  const Bytes low = low_rank_bytes(spec, matrix);
  kernels.push_back({.name = "project",
                     .reads = {kGradient, kProjector},
                     .work = product(spec, matrix),
                     .workspace = matrix.converts_gradient ? whole : Bytes(0),
                     .makes = low});
  const std::int64_t elements = matrix_sides(matrix.shape).large * spec.rank;
  kernels.push_back({.name = "moments",
                     .mutates = {kStep, kFirstMoment, kSecondMoment},
                     .work = elementwise_work(matrix.type, elements, 12, low * 7, low * 6, 7),
                     .temporary = low,
                     .makes = low});
}

void add_update(const UpdatedMatrix& matrix, std::vector<MatrixKernel>& kernels) {
  const std::int64_t elements = element_count(matrix.shape);
  const Bytes whole = bytes_of(matrix.type, Elements(elements));
  kernels.push_back({.name = "update",
                     .mutates = {kWeights},
                     .work = elementwise_work(matrix.type, elements, 2, whole * 2, whole)});
}

// Every so many steps the gradient's singular vectors are the new projector: a copy in fp32 and
// both bases beside it.
void add_galore_kernels(const OptimizerSpec& spec, const UpdatedMatrix& matrix,
                        std::vector<MatrixKernel>& kernels) {
  const MatrixSides sides = matrix_sides(matrix.shape);
  const std::int64_t elements = sides.rows * sides.columns;
  kernels.push_back(
      {.name = "singular_vectors",
       .reads = {kGradient},
       .mutates = {kProjector},
       .work = decomposition_work(sides.large, sides.small),
       .temporary = bytes_of(DType::kFloat32, Elements(2 * elements + sides.small * sides.small)),
       .refreshes = true});
  add_projected_moments(spec, matrix, kernels);
  kernels.push_back({.name = "project_back",
                     .reads = {kProjector},
                     .work = product(spec, matrix),
                     .makes = bytes_of(matrix.type, Elements(elements))});
  add_update(matrix, kernels);
}

// The projector is drawn at random; the moments only say by how much to scale each column of the
// gradient, or the whole of it where the rank is 1.
void add_apollo_kernels(const OptimizerSpec& spec, const UpdatedMatrix& matrix,
                        std::vector<MatrixKernel>& kernels) {
  const MatrixSides sides = matrix_sides(matrix.shape);
  const std::int64_t elements = sides.rows * sides.columns;
  const std::int64_t random = sides.small * spec.rank;
  const Bytes whole = bytes_of(matrix.type, Elements(elements));
  kernels.push_back({.name = "draw_projector",
                     .mutates = {kProjector},
                     .work = elementwise_work(matrix.type, random, 10, Bytes(0),
                                              bytes_of(matrix.type, Elements(random))),
                     .refreshes = true});
  add_projected_moments(spec, matrix, kernels);
  kernels.push_back({.name = "scale_gradient",
                     .reads = {kGradient},
                     .work = elementwise_work(matrix.type, elements, 2, whole, whole, 4),
                     .makes = whole});
  add_update(matrix, kernels);
}

constexpr OptimizerAlgorithm low_rank_adam(std::string_view name, std::string_view summary,
                                           int rank) {
  return {.name = name,
          .summary = summary,
          .forms = {true, false, false},
          .rank = rank,
          .refresh = 200,
          .add_states = add_states,
          .on_host = false,
          .takes = takes,
          .beside_matrices = adamw_optimizer,
          .on_flat_parts = "AdamW updates those"};
}

}  // namespace
}  // namespace low_rank_detail

const OptimizerAlgorithm& galore_optimizer() {
  static constexpr OptimizerAlgorithm kGalore = [] {
    OptimizerAlgorithm algorithm = low_rank_detail::low_rank_adam(
        "galore",
        "2 moments of rank r and a projector for hidden matrices of sides a > b: 4 (2 a r + b r) "
        "bytes in fp32; adamw for the rest (Zhao et al. 2024)",
        128);
    algorithm.add_matrix_kernels = low_rank_detail::add_galore_kernels;
    return algorithm;
  }();
  return kGalore;
}

const OptimizerAlgorithm& apollo_optimizer() {
  static constexpr OptimizerAlgorithm kApollo = [] {
    OptimizerAlgorithm algorithm = low_rank_detail::low_rank_adam(
        "apollo",
        "2 moments of rank r and a random projector for hidden matrices of sides a > b: 4 (2 a r "
        "+ b r) bytes in fp32; adamw for the rest (Zhu et al. 2025)",
        256);
    algorithm.add_matrix_kernels = low_rank_detail::add_apollo_kernels;
    return algorithm;
  }();
  return kApollo;
}

}  // namespace tidemark
