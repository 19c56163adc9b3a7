// GaLore: Adam on gradients that are projected to their singular vectors (Zhao et al. 2024).
#include "graph/operators/kernels.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/low_rank.hpp"
#include "policies/optimizers/matrix_work.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace galore_detail {
namespace {

using enum OptimizerTensor;

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
                     .work = projection(spec, matrix),
                     .makes = bytes_of(matrix.type, Elements(elements))});
  add_matrix_update(matrix, kernels);
}

}  // namespace
}  // namespace galore_detail

const OptimizerAlgorithm& galore_optimizer() {
  static constexpr OptimizerAlgorithm kGalore = [] {
    OptimizerAlgorithm algorithm = low_rank_adam(
        "galore",
        "2 moments of rank r and a projector for hidden matrices of sides a > b: 4 (2 a r + b r) "
        "bytes in fp32; adamw for the rest (Zhao et al. 2024)",
        128);
    algorithm.add_matrix_kernels = galore_detail::add_galore_kernels;
    return algorithm;
  }();
  return kGalore;
}

}  // namespace tidemark
