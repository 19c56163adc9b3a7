// Adafactor without a first moment, as torch.optim and as transformers have it.
#include <array>

#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace adafactor_detail {
namespace {

using enum OptimizerTensor;

constexpr std::int64_t kNumberBytes = 4;  // one fp32 number

// torch.optim: variances in the type of the gradient, a vector's whole.
void add_torch_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                      std::vector<OptimizerState>& states) {
  if (parameter.counter > Bytes(0)) states.push_back({kStep, "step", parameter.counter});
  const Shape& shape = parameter.shape;
  if (shape.rank() < 2) {
    states.push_back({kSecondMoment, "variance", parameter.moment});
    return;
  }
  const auto numbers = [&](std::int64_t count) {
    return bytes_of(parameter.type, Elements(count));
  };
  states.push_back({kRows, "row_var", numbers(parameter.elements.count / shape[-1])});
  states.push_back({kColumns, "col_var", numbers(parameter.elements.count / shape[-2])});
}

// _single_tensor_adafactor: norms of rows and columns, their product, its inverse root times the
// gradient, all in the tensor of the product.
void add_torch_kernels(const OptimizerSpec& spec, OptimizerImplementation /*form*/,
                       const FrameworkRules& /*rules*/, OptimizerKernels& kernels) {
  kernels.add("count_steps", {kStep}, {kStep}, 0);
  kernels.add("norm_of_weights", {kWeights}, {kTemporary}, 2);
  if (spec.weight_decay > 0) kernels.add("decay_weights", {kWeights}, {kWeights});
  kernels.add("row_norms", {kGradient, kRows}, {kRows}, 2);
  kernels.add("column_norms", {kGradient, kColumns}, {kColumns}, 2);
  kernels.add("approximate", {kRows, kColumns, kSecondMoment}, {kTemporary}, 2);
  kernels.add("inverse_root", {kTemporary}, {kTemporary}, 3);
  kernels.add("scale_gradient", {kTemporary, kGradient}, {kTemporary});
  kernels.add("norm_of_update", {kTemporary}, {kTemporary}, 2);
  kernels.add("update", {kWeights, kTemporary}, {kWeights}, 2);
}

// Temporaries: the estimate, which becomes the update; the squares of a vector's gradient, or the
// norms of rows and columns.
LoopTemporaries torch_temporaries(const OptimizerSpec& /*spec*/, const FrameworkRules& /*rules*/,
                                  const Shape& shape) {
  if (shape.rank() < 2) return {.inside = 1, .outlives = true};
  const std::int64_t elements = element_count(shape).count;
  const Bytes norms((elements / shape[-1] + elements / shape[-2]) * kNumberBytes);
  return {.outlives = true, .after = norms};
}

// Adds rows, columns and one number, the parameter's root mean square; a vector keeps its squares
// whole. A tensor of more than two axes is a stack of matrices of its last two.
void add_adafactor_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                          std::vector<OptimizerState>& states) {
  const Shape& shape = parameter.shape;
  const auto numbers = [](std::int64_t count) { return Bytes(count * kNumberBytes); };
  if (shape.rank() < 2) {
    states.push_back({kSecondMoment, "exp_avg_sq", numbers(parameter.elements.count)});
  } else {
    states.push_back({kRows, "exp_avg_sq_row", numbers(parameter.elements.count / shape[-1])});
    states.push_back({kColumns, "exp_avg_sq_col", numbers(parameter.elements.count / shape[-2])});
  }
  states.push_back({kRootMeanSquare, "RMS", numbers(1)});
}

void add_adafactor_kernels(const OptimizerSpec& spec, OptimizerImplementation /*form*/,
                           const FrameworkRules& /*rules*/, OptimizerKernels& kernels) {
  kernels.add("root_mean_square", {kWeights}, {kRootMeanSquare}, 2);
  kernels.add("squares", {kGradient}, {kTemporary});
  kernels.add("add_epsilon", {kTemporary}, {kTemporary});
  kernels.add("moments", {kRows, kColumns, kSecondMoment, kTemporary},
              {kRows, kColumns, kSecondMoment}, 3);
  kernels.add("approximate", {kRows, kColumns, kSecondMoment}, {kTemporary}, 2);
  kernels.add("scale_by_gradient", {kTemporary, kGradient}, {kTemporary});
  kernels.add("clip", {kTemporary}, {kTemporary}, 3);
  kernels.add("scale", {kTemporary}, {kTemporary});
  if (spec.weight_decay > 0) kernels.add("decay_weights", {kWeights}, {kWeights}, 2);
  kernels.add("negate", {kTemporary}, {kOtherTemporary});
  kernels.add("update", {kWeights, kOtherTemporary}, {kWeights});
}

// Temporaries: grad**2 + eps; then row times column, and its negative.
LoopTemporaries adafactor_temporaries(const OptimizerSpec& /*spec*/,
                                      const FrameworkRules& /*rules*/, const Shape& shape) {
  if (shape.rank() < 2) return {.inside = 1, .outlives = true};
  const std::int64_t elements = element_count(shape).count;
  const Bytes factors((elements / shape[-1] + elements / shape[-2]) * kNumberBytes);
  return {.inside = 1, .outlives = true, .after = factors};
}

}  // namespace
}  // namespace adafactor_detail

const OptimizerAlgorithm& adafactor_optimizer() {
  static constexpr std::array<OptimizerLibrary, 2> kLibraries{
      {{"torch", adafactor_optimizer}, {"transformers", adafactor_transformers}}};
  static constexpr OptimizerAlgorithm kAdafactor{
      .name = "adafactor",
      .summary =
          "second moment as a row and a column: 4 (rows + columns) bytes a matrix in fp32, 4 bytes "
          "per parameter of a vector (Shazeer and Stern 2018; torch.optim)",
      .forms = {true, false, false},
      .libraries = kLibraries,
      .add_states = adafactor_detail::add_torch_states,
      .add_kernels = adafactor_detail::add_torch_kernels,
      .loop_temporaries = adafactor_detail::torch_temporaries,
      .synchronises = true,  // the norms of weights and update are read by the host
      .on_flat_parts = "their states are of full size"};
  return kAdafactor;
}

const OptimizerAlgorithm& adafactor_transformers() {
  static constexpr OptimizerAlgorithm kAdafactor{
      .name = "adafactor",
      .summary = "the same with factors in fp32 whatever the weights' type (transformers)",
      .forms = {true, false, false},
      .add_states = adafactor_detail::add_adafactor_states,
      .add_kernels = adafactor_detail::add_adafactor_kernels,
      .loop_temporaries = adafactor_detail::adafactor_temporaries,
      .on_flat_parts = "their states are of full size"};
  return kAdafactor;
}

}  // namespace tidemark
