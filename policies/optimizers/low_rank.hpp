// Adam on gradients of low rank, for the matrices of hidden layers: what GaLore and APOLLO share.
#pragma once

#include <string_view>
#include <vector>

#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {

// Two moments of the projected gradient, [larger side, rank], and the projector, [rank, smaller
// side].
void add_low_rank_states(const OptimizerSpec& spec, const OptimizedParameter& parameter,
                         std::vector<OptimizerState>& states);
// Whether a parameter has them: a projection to as many dimensions as the smaller side has would
// save nothing.
[[nodiscard]] bool takes_low_rank(const OptimizerSpec& spec, const Shape& shape, ParameterUse use);

// Returns the product of a matrix with its projector.
[[nodiscard]] Work projection(const OptimizerSpec& spec, const UpdatedMatrix& matrix);
// Adds the projected gradient, which is a variable, and Adam, whose root and denominator are of its
// size.
void add_projected_moments(const OptimizerSpec& spec, const UpdatedMatrix& matrix,
                           std::vector<MatrixKernel>& kernels);
// Adds the update of the weights.
void add_matrix_update(const UpdatedMatrix& matrix, std::vector<MatrixKernel>& kernels);

// Returns an algorithm of this kind without its kernels; all other parameters have AdamW.
[[nodiscard]] constexpr OptimizerAlgorithm low_rank_adam(std::string_view name,
                                                         std::string_view summary, int rank) {
  return {.name = name,
          .summary = summary,
          .forms = {true, false, false},
          .rank = rank,
          .refresh = 200,
          .add_states = add_low_rank_states,
          .on_host = false,
          .takes = takes_low_rank,
          .beside_matrices = adamw_optimizer,
          .on_flat_parts = "AdamW updates those"};
}

}  // namespace tidemark
