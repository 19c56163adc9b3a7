// Zhang et al.'s Adam-mini: one second moment for each row of a matrix, one for a vector.
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace adam_mini_detail {
namespace {

using enum OptimizerTensor;

// The second moment has a number per output row; the code groups the rows of queries and keys by
// head, so that theirs are fewer still.
void add_mini_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                     std::vector<OptimizerState>& states) {
  const std::int64_t rows = parameter.shape.rank() < 2 ? 1 : parameter.shape[0];
  states.push_back({kFirstMoment, "m", parameter.moment});
  states.push_back({kRows, "vmean", bytes_of(parameter.type, Elements(rows))});
}

void add_mini_kernels(const OptimizerSpec& spec, OptimizerImplementation /*form*/,
                      const FrameworkRules& /*rules*/, OptimizerKernels& kernels) {
  if (spec.weight_decay > 0) kernels.add("decay_weights", {kWeights}, {kWeights});
  kernels.add("squares", {kGradient}, {kTemporary});
  kernels.add("row_means", {kTemporary, kRows}, {kRows});
  kernels.add("first_moment", {kFirstMoment, kGradient}, {kFirstMoment}, 3);
  kernels.add("scale", {kFirstMoment, kRows}, {kTemporary}, 2);
  kernels.add("negate", {kTemporary}, {kOtherTemporary});
  kernels.add("update", {kWeights, kOtherTemporary}, {kWeights});
}

}  // namespace
}  // namespace adam_mini_detail

const OptimizerAlgorithm& adam_mini_optimizer() {
  static constexpr OptimizerAlgorithm kAdamMini{
      .name = "adam_mini",
      .summary =
          "1 moment and a number per row of a matrix: 4 bytes of state per parameter in fp32 "
          "(Zhang et al. 2024)",
      .forms = {true, false, false},
      .add_states = adam_mini_detail::add_mini_states,
      .add_kernels = adam_mini_detail::add_mini_kernels,
      // Squares and then the scaled moment beside its negative.
      .loop_temporaries = [](const OptimizerSpec& /*spec*/, const FrameworkRules& /*rules*/,
                             const Shape& /*shape*/) -> LoopTemporaries {
        return {.inside = 1, .outlives = true};
      },
      .on_flat_parts = "each of those has one second moment"};
  return kAdamMini;
}

}  // namespace tidemark
