// Jordan's Muon for hidden matrices, and AdamW for all other parameters, as in his single-device
// code.
#include <algorithm>

#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/newton_schulz.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace muon_detail {
namespace {

using enum OptimizerTensor;

// The momentum and the look-ahead, which overwrites the gradient; Newton and Schulz's products,
// whose result is a variable of the loop in bf16; the update.
void add_muon_kernels(const OptimizerSpec& /*spec*/, const UpdatedMatrix& matrix,
                      std::vector<MatrixKernel>& kernels) {
  const Shape& shape = matrix.shape;
  const Elements elements = element_count(shape);
  const Bytes bytes = bytes_of(matrix.type, elements);
  const Bytes update = bytes_of(DType::kBFloat16, elements);
  Work momentum{.op_class = OperatorClass::kOptimizer, .dtype = matrix.type, .launches = 2};
  momentum.flops = Flops(6 * static_cast<double>(elements.count));
  momentum.read = bytes * 4;
  momentum.written = bytes * 2;
  kernels.push_back({.name = "momentum",
                     .mutates = {kGradient, kFirstMoment},
                     .work = momentum,
                     .workspace = matrix.converts_gradient ? bytes : Bytes(0)});
  Work products{.op_class = OperatorClass::kMatmul, .dtype = DType::kBFloat16, .launches = 32};
  products.flops = newton_schulz_flops(shape);
  products.read = newton_schulz_bytes(shape) * 5;
  products.written = newton_schulz_bytes(shape) * 5;
  const std::int64_t rows = std::min(shape[0], elements.count / shape[0]);
  products.extent = {rows, rows, elements.count / rows, 5};
  kernels.push_back({.name = "orthogonalize",
                     .reads = {kGradient},
                     .work = products,
                     .workspace = newton_schulz_bytes(shape) - update,
                     .makes = update});
  Work work{.op_class = OperatorClass::kOptimizer, .dtype = matrix.type, .launches = 2};
  work.flops = Flops(3 * static_cast<double>(elements.count));
  work.read = bytes * 2 + update;
  work.written = bytes * 2;
  kernels.push_back({.name = "update", .mutates = {kWeights}, .work = work});
}

}  // namespace
}  // namespace muon_detail

const OptimizerAlgorithm& muon_optimizer() {
  static constexpr OptimizerAlgorithm kMuon{
      .name = "muon",
      .summary =
          "1 moment of hidden matrices, 4 bytes per parameter in fp32, and adamw for embeddings, "
          "head and vectors (Jordan 2024)",
      .forms = {true, false, false},
      .weight_decay = 0.1,
      .momentum = 0.95,
      .add_states =
          [](const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
             std::vector<OptimizerState>& states) {
            states.push_back({OptimizerTensor::kFirstMoment, "momentum_buffer", parameter.moment});
          },
      .on_host = false,
      // A flat part of a matrix is no matrix.
      .takes = [](const OptimizerSpec& /*spec*/, const Shape& shape,
                  ParameterUse use) { return use == ParameterUse::kMatrix && shape.rank() > 1; },
      .add_matrix_kernels = muon_detail::add_muon_kernels,
      .beside_matrices = adamw_optimizer,
      .on_flat_parts = "AdamW updates those"};
  return kMuon;
}

}  // namespace tidemark
