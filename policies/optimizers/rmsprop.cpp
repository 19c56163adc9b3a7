// torch.optim.RMSprop.
#include "graph/operators/kernels.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace rmsprop_detail {
namespace {

using enum OptimizerTensor;

// The step counter of RMSprop is a Python number, without memory on the device.
void add_rmsprop_states(const OptimizerSpec& spec, const OptimizedParameter& parameter,
                        std::vector<OptimizerState>& states) {
  states.push_back({kSecondMoment, "square_avg", parameter.moment});
  if (spec.momentum > 0) states.push_back({kFirstMoment, "momentum_buffer", parameter.moment});
  if (spec.centered) states.push_back({kMeanGradient, "grad_avg", parameter.moment});
}

// _multi_tensor_rmsprop and _single_tensor_rmsprop.
void add_rmsprop_kernels(const OptimizerSpec& spec, OptimizerImplementation form,
                         const FrameworkRules& rules, OptimizerKernels& kernels) {
  add_decay(spec, form, rules, kernels);
  kernels.add("scale_squares", {kSecondMoment}, {kSecondMoment});
  kernels.add("add_squares", {kSecondMoment, kGradient}, {kSecondMoment}, 3);
  if (spec.centered) {
    kernels.add("mean_gradient", {kMeanGradient, kGradient}, {kMeanGradient}, 3);
    kernels.add("variance", {kSecondMoment, kMeanGradient}, {kTemporary}, 2);
    kernels.add("square_root", {kTemporary}, {kTemporary});
  } else {
    kernels.add("square_root", {kSecondMoment}, {kTemporary});
  }
  kernels.add("add_epsilon", {kTemporary}, {kTemporary});
  if (spec.momentum > 0) {
    kernels.add("scale_momentum", {kFirstMoment}, {kFirstMoment});
    kernels.add("add_gradient", {kFirstMoment, kGradient, kTemporary}, {kFirstMoment}, 2);
    kernels.add("update", {kWeights, kFirstMoment}, {kWeights}, 2);
  } else {
    kernels.add("update", {kWeights, kGradient, kTemporary}, {kWeights}, 2);
  }
}

}  // namespace
}  // namespace rmsprop_detail

const OptimizerAlgorithm& rmsprop_optimizer() {
  static constexpr OptimizerAlgorithm kRmsprop{
      .name = "rmsprop",
      .summary =
          "1 mean of squares: 4 bytes of state per parameter in fp32, 4 more with momentum, 4 more "
          "centered",
      .forms = {true, true, false},
      .takes_momentum = true,
      .takes_centered = true,
      .add_states = rmsprop_detail::add_rmsprop_states,
      .add_kernels = rmsprop_detail::add_rmsprop_kernels,
      // avg = square_avg.sqrt(), then avg.add_(eps).
      .loop_temporaries = [](const OptimizerSpec& spec, const FrameworkRules& rules,
                             const Shape& /*shape*/) -> LoopTemporaries {
        return {.inside = spec.weight_decay > 0 ? 1 : 0,
                .outlives = true,
                .after = scalar_temporaries(rules, DType::kFloat32)};
      }};
  return kRmsprop;
}

}  // namespace tidemark
