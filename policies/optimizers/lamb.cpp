// You et al.'s LAMB: Adam whose update has a length in proportion to that of the weights. The loop
// is that of the common Python implementations, the fused form Apex's FusedLAMB.
#include "graph/operators/kernels.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace lamb_detail {
namespace {

using enum OptimizerTensor;

void add_lamb_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                     std::vector<OptimizerState>& states) {
  states.push_back({kFirstMoment, "exp_avg", parameter.moment});
  states.push_back({kSecondMoment, "exp_avg_sq", parameter.moment});
}

void add_lamb_kernels(const OptimizerSpec& spec, OptimizerImplementation /*form*/,
                      const FrameworkRules& /*rules*/, OptimizerKernels& kernels) {
  kernels.add("first_moment", {kFirstMoment, kGradient}, {kFirstMoment}, 3);
  kernels.add("second_moment", {kSecondMoment, kGradient}, {kSecondMoment}, 4);
  kernels.add("square_root", {kSecondMoment}, {kTemporary});
  kernels.add("add_epsilon", {kTemporary}, {kTemporary});
  kernels.add("direction", {kFirstMoment, kTemporary}, {kOtherTemporary});
  if (spec.weight_decay > 0)
    kernels.add("decay", {kOtherTemporary, kWeights}, {kOtherTemporary}, 2);
  kernels.add("norms", {kWeights, kOtherTemporary}, {kOtherTemporary}, 4);
  kernels.add("update", {kWeights, kOtherTemporary}, {kWeights}, 2);
}

// The norm of all gradients, the moments with the update in place of the gradient, the norms of
// each tensor, the weights.
void add_fused_lamb(const OptimizerSpec& /*spec*/, OptimizerKernels& kernels) {
  kernels.add("gradient_norm", {kGradient}, {}, 2);
  kernels.add("direction", {kGradient, kWeights, kFirstMoment, kSecondMoment},
              {kGradient, kFirstMoment, kSecondMoment}, 14);
  kernels.add("norms", {kWeights, kGradient}, {}, 4);
  kernels.add("update", {kGradient, kWeights}, {kWeights, kParameter}, 2);
}

}  // namespace
}  // namespace lamb_detail

const OptimizerAlgorithm& lamb_optimizer() {
  static constexpr OptimizerAlgorithm kLamb{
      .name = "lamb",
      .summary = "2 moments: 8 bytes of state per parameter in fp32 (You et al. 2020)",
      .forms = {true, false, true},
      .weight_decay = 0.01,
      .add_states = lamb_detail::add_lamb_states,
      .add_kernels = lamb_detail::add_lamb_kernels,
      .add_fused = lamb_detail::add_fused_lamb,
      // The denominator, and the direction, which is a variable.
      .loop_temporaries = [](const OptimizerSpec& /*spec*/, const FrameworkRules& rules,
                             const Shape& /*shape*/) -> LoopTemporaries {
        return {
            .inside = 1, .outlives = true, .scalars = scalar_temporaries(rules, DType::kFloat32)};
      }};
  return kLamb;
}

}  // namespace tidemark
