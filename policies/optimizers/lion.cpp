// google/automl's Lion.
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace lion_detail {
namespace {

using enum OptimizerTensor;

void add_lion_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                     std::vector<OptimizerState>& states) {
  states.push_back({kFirstMoment, "exp_avg", parameter.moment});
}

void add_lion_kernels(const OptimizerSpec& spec, OptimizerImplementation /*form*/,
                      const FrameworkRules& /*rules*/, OptimizerKernels& kernels) {
  if (spec.weight_decay > 0) kernels.add("decay_weights", {kWeights}, {kWeights});
  kernels.add("scale_moment", {kFirstMoment}, {kTemporary});
  kernels.add("scale_gradient", {kGradient}, {kOtherTemporary});
  kernels.add("interpolate", {kTemporary, kOtherTemporary}, {kTemporary});
  kernels.add("sign", {kTemporary}, {kTemporary});
  kernels.add("update", {kWeights, kTemporary}, {kWeights}, 2);
  kernels.add("decay_moment", {kFirstMoment}, {kFirstMoment});
  kernels.add("add_gradient", {kFirstMoment, kGradient}, {kFirstMoment}, 2);
}

}  // namespace
}  // namespace lion_detail

const OptimizerAlgorithm& lion_optimizer() {
  static constexpr OptimizerAlgorithm kLion{
      .name = "lion",
      .summary = "1 moment: 4 bytes of state per parameter in fp32 (Chen et al. 2023)",
      .forms = {true, false, true},
      .add_states = lion_detail::add_lion_states,
      .add_kernels = lion_detail::add_lion_kernels,
      .add_fused = [](const OptimizerSpec& /*spec*/,
                      OptimizerKernels& k) { add_fused_moment_update(k); },
      // exp_avg * beta1 + grad * (1 - beta1).
      .loop_temporaries = [](const OptimizerSpec& /*spec*/, const FrameworkRules& /*rules*/,
                             const Shape& /*shape*/) -> LoopTemporaries {
        return {.inside = 2, .outlives = true};
      }};
  return kLion;
}

}  // namespace tidemark
