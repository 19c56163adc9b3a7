#include "policies/optimizers/low_rank.hpp"

#include "graph/operators/kernels.hpp"
#include "policies/optimizers/matrix_work.hpp"

namespace tidemark {

namespace low_rank_detail {
namespace {

Bytes low_rank_bytes(const OptimizerSpec& spec, const UpdatedMatrix& matrix) {
  return bytes_of(matrix.type, Elements(matrix_sides(matrix.shape).large * spec.rank));
}

}  // namespace
}  // namespace low_rank_detail

bool takes_low_rank(const OptimizerSpec& spec, const Shape& shape, ParameterUse use) {
  return use == ParameterUse::kMatrix && shape.rank() == 2 && spec.rank < matrix_sides(shape).small;
}

void add_low_rank_states(const OptimizerSpec& spec, const OptimizedParameter& parameter,
                         std::vector<OptimizerState>& states) {
  using enum OptimizerTensor;
  const MatrixSides sides = matrix_sides(parameter.shape);
  const Bytes moment = bytes_of(parameter.type, Elements(sides.large * spec.rank));
  if (parameter.counter > Bytes(0)) states.push_back({kStep, "step", parameter.counter});
  states.push_back(
      {kProjector, "projector", bytes_of(parameter.type, Elements(sides.small * spec.rank))});
  states.push_back({kFirstMoment, "exp_avg", moment});
  states.push_back({kSecondMoment, "exp_avg_sq", moment});
}

Work projection(const OptimizerSpec& spec, const UpdatedMatrix& matrix) {
  const MatrixSides sides = matrix_sides(matrix.shape);
  return matmul_work(matrix.type, sides.large, spec.rank, sides.small, 1);
}

void add_projected_moments(const OptimizerSpec& spec, const UpdatedMatrix& matrix,
                           std::vector<MatrixKernel>& kernels) {
  using enum OptimizerTensor;
  const Bytes whole = bytes_of(matrix.type, element_count(matrix.shape));
  const Bytes low = low_rank_detail::low_rank_bytes(spec, matrix);
  kernels.push_back({.name = "project",
                     .reads = {kGradient, kProjector},
                     .work = projection(spec, matrix),
                     .workspace = matrix.converts_gradient ? whole : Bytes(0),
                     .makes = low});
  const Elements elements(matrix_sides(matrix.shape).large * spec.rank);
  kernels.push_back({.name = "moments",
                     .mutates = {kStep, kFirstMoment, kSecondMoment},
                     .work = elementwise_work(matrix.type, elements, 12, low * 7, low * 6, 7),
                     .temporary = low,
                     .makes = low});
}

void add_matrix_update(const UpdatedMatrix& matrix, std::vector<MatrixKernel>& kernels) {
  using enum OptimizerTensor;
  const Elements elements = element_count(matrix.shape);
  const Bytes whole = bytes_of(matrix.type, elements);
  kernels.push_back({.name = "update",
                     .mutates = {kWeights},
                     .work = elementwise_work(matrix.type, elements, 2, whole * 2, whole)});
}

}  // namespace tidemark
