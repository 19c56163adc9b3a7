// transformers' Adafactor without a first moment.
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace adafactor_detail {
namespace {

using enum OptimizerTensor;

constexpr std::int64_t kNumberBytes = 4;  // one fp32 number

// Adds rows, columns and one number, the parameter's root mean square; a vector keeps its squares
// whole. A tensor of more than two axes is a stack of matrices of its last two.
void add_adafactor_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                          std::vector<OptimizerState>& states) {
  const Shape& shape = parameter.shape;
  const auto numbers = [](std::int64_t count) { return Bytes(count * kNumberBytes); };
  if (shape.rank() < 2) {
    states.push_back({kSecondMoment, "exp_avg_sq", numbers(parameter.elements)});
  } else {
    states.push_back({kRows, "exp_avg_sq_row", numbers(parameter.elements / shape[-1])});
    states.push_back({kColumns, "exp_avg_sq_col", numbers(parameter.elements / shape[-2])});
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
  const std::int64_t elements = element_count(shape);
  const Bytes factors((elements / shape[-1] + elements / shape[-2]) * kNumberBytes);
  return {.inside = 1, .outlives = true, .after = factors};
}

}  // namespace
}  // namespace adafactor_detail

const OptimizerAlgorithm& adafactor_optimizer() {
  static constexpr OptimizerAlgorithm kAdafactor{
      .name = "adafactor",
      .summary =
          "second moment as a row and a column: 4 (rows + columns) bytes a matrix in fp32, 4 bytes "
          "per parameter of a vector (Shazeer and Stern 2018)",
      .forms = {true, false, false},
      .add_states = adafactor_detail::add_adafactor_states,
      .add_kernels = adafactor_detail::add_adafactor_kernels,
      .loop_temporaries = adafactor_detail::adafactor_temporaries};
  return kAdafactor;
}

}  // namespace tidemark
