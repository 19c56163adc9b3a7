// torch.optim.Adam and AdamW.
#include "graph/operators/kernels.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace adam_detail {
namespace {

using enum OptimizerTensor;

void add_adam_states(const OptimizerSpec& spec, const OptimizedParameter& parameter,
                     std::vector<OptimizerState>& states) {
  if (parameter.counter > Bytes(0)) states.push_back({kStep, "step", parameter.counter});
  states.push_back({kFirstMoment, "exp_avg", parameter.moment});
  states.push_back({kSecondMoment, "exp_avg_sq", parameter.moment});
  if (spec.amsgrad) states.push_back({kLargestMoment, "max_exp_avg_sq", parameter.moment});
  if (spec.kahan) states.push_back({kCompensation, "kahan_comp", parameter.moment});
}

// _multi_tensor_adam and _single_tensor_adam after the decay. 1.13 keeps the square root beside the
// denominator.
void add_moments_and_update(const OptimizerSpec& spec, bool keeps_root, OptimizerKernels& kernels) {
  const OptimizerTensor divisor = spec.amsgrad ? kLargestMoment : kSecondMoment;
  const OptimizerTensor denominator = keeps_root ? kOtherTemporary : kTemporary;
  kernels.add("first_moment", {kFirstMoment, kGradient}, {kFirstMoment}, 3);
  kernels.add("scale_second_moment", {kSecondMoment}, {kSecondMoment});
  kernels.add("second_moment", {kSecondMoment, kGradient}, {kSecondMoment}, 3);
  if (spec.amsgrad) {
    kernels.add("largest_second_moment", {kLargestMoment, kSecondMoment}, {kLargestMoment});
  }
  kernels.add("square_root", {divisor}, {kTemporary});
  kernels.add("divide", {kTemporary}, {kTemporary});
  kernels.add("add_epsilon", {kTemporary}, {denominator});
  if (!spec.kahan) {
    kernels.add("update", {kWeights, kFirstMoment, denominator}, {kWeights}, 3);
    return;
  }
  // The update is added to what earlier steps have lost; what the weights lose of the sum is kept.
  kernels.add("compensated_update", {kCompensation, kFirstMoment, denominator}, {kCompensation}, 3);
  kernels.add("keep_weights", {kWeights}, {denominator}, 0);
  kernels.add("update", {kWeights, kCompensation}, {kWeights});
  kernels.add("compensation", {kCompensation, denominator, kWeights}, {kCompensation}, 2);
}

bool keeps_root(OptimizerImplementation form, const FrameworkRules& rules) {
  return form == OptimizerImplementation::kLoop || rules.foreach_adam_temporaries > 1;
}

void add_adam_kernels(const OptimizerSpec& spec, OptimizerImplementation form,
                      const FrameworkRules& rules, OptimizerKernels& kernels) {
  kernels.add("count_steps", {kStep}, {kStep}, 0);
  add_decay(spec, form, rules, kernels);
  add_moments_and_update(spec, keeps_root(form, rules), kernels);
}

void add_adamw_kernels(const OptimizerSpec& spec, OptimizerImplementation form,
                       const FrameworkRules& rules, OptimizerKernels& kernels) {
  kernels.add("count_steps", {kStep}, {kStep}, 0);
  if (spec.weight_decay > 0) kernels.add("decay_weights", {kWeights}, {kWeights});
  add_moments_and_update(spec, keeps_root(form, rules), kernels);
}

// Adds the fused kernel: it reads 16 bytes of fp32 per parameter and writes 12.
void add_fused_adam(const OptimizerSpec& spec, OptimizerKernels& kernels) {
  if (spec.kahan) {
    kernels.add("fused", {kGradient, kWeights, kFirstMoment, kSecondMoment, kStep, kCompensation},
                {kWeights, kFirstMoment, kSecondMoment, kStep, kCompensation, kParameter}, 18);
  } else if (spec.amsgrad) {
    kernels.add("fused", {kGradient, kWeights, kFirstMoment, kSecondMoment, kStep, kLargestMoment},
                {kWeights, kFirstMoment, kSecondMoment, kStep, kLargestMoment, kParameter}, 15);
  } else {
    kernels.add("fused", {kGradient, kWeights, kFirstMoment, kSecondMoment, kStep},
                {kWeights, kFirstMoment, kSecondMoment, kStep, kParameter}, 14);
  }
}

// Temporaries: the root and the denominator, which is a variable; Adam's decayed gradient beside
// them.
LoopTemporaries adam_temporaries(const FrameworkRules& rules, int decayed) {
  return {.inside = 1 + decayed,
          .outlives = true,
          .scalars = scalar_temporaries(rules, DType::kFloat32)};
}

}  // namespace
}  // namespace adam_detail

const OptimizerAlgorithm& adam_optimizer() {
  static constexpr OptimizerAlgorithm kAdam{
      .name = "adam",
      .summary = "2 moments: 8 bytes of state per parameter in fp32 (Kingma and Ba 2015)",
      .forms = {true, true, true},
      .takes_amsgrad = true,
      .add_states = adam_detail::add_adam_states,
      .add_kernels = adam_detail::add_adam_kernels,
      .add_fused = adam_detail::add_fused_adam,
      .loop_temporaries = [](const OptimizerSpec& spec, const FrameworkRules& rules,
                             const Shape& /*shape*/) {
        return adam_detail::adam_temporaries(rules, spec.weight_decay > 0 ? 1 : 0);
      }};
  return kAdam;
}

const OptimizerAlgorithm& adamw_optimizer() {
  static constexpr OptimizerAlgorithm kAdamW{
      .name = "adamw",
      .summary = "2 moments: 8 bytes of state per parameter in fp32 (Loshchilov and Hutter 2019)",
      .forms = {true, true, true},
      .weight_decay = 0.01,
      .takes_amsgrad = true,
      .takes_rounding = true,
      .add_states = adam_detail::add_adam_states,
      .add_kernels = adam_detail::add_adamw_kernels,
      .add_fused = adam_detail::add_fused_adam,
      .loop_temporaries = [](const OptimizerSpec& /*spec*/, const FrameworkRules& rules,
                             const Shape& /*shape*/) {
        return adam_detail::adam_temporaries(rules, 0);
      }};
  return kAdamW;
}

}  // namespace tidemark
