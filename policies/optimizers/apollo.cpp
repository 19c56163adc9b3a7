// APOLLO: gradients scaled by Adam on a random projection of them (Zhu et al. 2025).
#include "graph/operators/kernels.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/low_rank.hpp"
#include "policies/optimizers/matrix_work.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace apollo_detail {
namespace {

using enum OptimizerTensor;

// The projector is drawn at random; the moments only say by how much to scale each column of the
// gradient, or the whole of it where the rank is 1.
void add_apollo_kernels(const OptimizerSpec& spec, const UpdatedMatrix& matrix,
                        std::vector<MatrixKernel>& kernels) {
  const MatrixSides sides = matrix_sides(matrix.shape);
  const Elements elements = element_count(matrix.shape);
  const Elements random(sides.small * spec.rank);
  const Bytes whole = bytes_of(matrix.type, elements);
  kernels.push_back(
      {.name = "draw_projector",
       .mutates = {kProjector},
       .work = elementwise_work(matrix.type, random, 10, Bytes(0), bytes_of(matrix.type, random)),
       .refreshes = true});
  add_projected_moments(spec, matrix, kernels);
  kernels.push_back({.name = "scale_gradient",
                     .reads = {kGradient},
                     .work = elementwise_work(matrix.type, elements, 2, whole, whole, 4),
                     .makes = whole});
  add_matrix_update(matrix, kernels);
}

}  // namespace
}  // namespace apollo_detail

const OptimizerAlgorithm& apollo_optimizer() {
  static constexpr OptimizerAlgorithm kApollo = [] {
    OptimizerAlgorithm algorithm = low_rank_adam(
        "apollo",
        "2 moments of rank r and a random projector for hidden matrices of sides a > b: 4 (2 a r "
        "+ b r) bytes in fp32; adamw for the rest (Zhu et al. 2025)",
        256);
    algorithm.add_matrix_kernels = apollo_detail::add_apollo_kernels;
    return algorithm;
  }();
  return kApollo;
}

}  // namespace tidemark
