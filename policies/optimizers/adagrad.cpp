// torch.optim.Adagrad.
#include "graph/operators/kernels.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace adagrad_detail {
namespace {

using enum OptimizerTensor;

// Adds the counter and the sum, both created with the optimizer.
void add_adagrad_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                        std::vector<OptimizerState>& states) {
  if (parameter.counter > Bytes(0)) states.push_back({kStep, "step", parameter.counter, true});
  states.push_back({kSecondMoment, "sum", parameter.moment, true});
}

// -lr / (1 + (step - 1) * lr_decay) for each parameter, then
// _foreach_div(_foreach_mul(grads, minus_clr), std): the product lives until the quotient is made.
void add_quotients_of_new_lists(OptimizerKernels& kernels) {
  kernels.add("square_root", {kSecondMoment}, {kTemporary});
  kernels.add("add_epsilon", {kTemporary}, {kTemporary});
  kernels.add("scale_gradient", {kGradient, kLearningRate}, {kDecayedGradient});
  kernels.add("divide", {kDecayedGradient, kTemporary}, {kOtherTemporary});
  kernels.add("update", {kWeights, kOtherTemporary}, {kWeights});
}

// _multi_tensor_adagrad and _single_tensor_adagrad: 2.4's foreach form scales the gradients by the
// learning rate, in place where they are a copy of its own.
void add_adagrad_kernels(const OptimizerSpec& spec, OptimizerImplementation form,
                         const FrameworkRules& rules, OptimizerKernels& kernels) {
  const bool new_lists = form == OptimizerImplementation::kForeach && rules.foreach_makes_new_lists;
  kernels.add("count_steps", {kStep}, {kStep}, 0);
  if (new_lists) kernels.add("learning_rates", {kStep}, {kLearningRate}, 0);
  add_decay(spec, form, rules, kernels);
  kernels.add("add_squares", {kSecondMoment, kGradient}, {kSecondMoment}, 2);
  if (new_lists) return add_quotients_of_new_lists(kernels);
  kernels.add("square_root", {kSecondMoment}, {kTemporary});
  kernels.add("add_epsilon", {kTemporary}, {kTemporary});
  if (form == OptimizerImplementation::kLoop) {
    kernels.add("update", {kWeights, kGradient, kTemporary}, {kWeights}, 3);
    return;
  }
  const OptimizerTensor scaled = spec.weight_decay > 0 ? kGradient : kOtherTemporary;
  kernels.add("scale_gradient", {kGradient}, {scaled});
  kernels.add("update", {kWeights, scaled, kTemporary}, {kWeights}, 2);
}

}  // namespace
}  // namespace adagrad_detail

const OptimizerAlgorithm& adagrad_optimizer() {
  static constexpr OptimizerAlgorithm kAdagrad{
      .name = "adagrad",
      .summary = "1 sum of squares: 4 bytes of state per parameter in fp32, there from the start",
      .forms = {true, true, false},
      .add_states = adagrad_detail::add_adagrad_states,
      .add_kernels = adagrad_detail::add_adagrad_kernels,
      // sum.sqrt().add_(eps): both exist before the variable is replaced.
      .loop_temporaries = [](const OptimizerSpec& spec, const FrameworkRules& rules,
                             const Shape& /*shape*/) -> LoopTemporaries {
        return {.inside = spec.weight_decay > 0 ? 1 : 0,
                .outlives = true,
                .scalars = scalar_temporaries(rules, DType::kFloat32)};
      }};
  return kAdagrad;
}

}  // namespace tidemark
