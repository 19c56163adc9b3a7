// torch.optim.SGD: without momentum, with it, and with Nesterov's.
#include "graph/operators/kernels.hpp"
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace sgd_detail {
namespace {

using enum OptimizerTensor;

constexpr std::string_view kMomentumSummary = "1 moment: 4 bytes of state per parameter in fp32";

void add_no_state(const OptimizerSpec& /*spec*/, const OptimizedParameter& /*parameter*/,
                  std::vector<OptimizerState>& /*states*/) {}

void add_momentum_buffer(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                         std::vector<OptimizerState>& states) {
  states.push_back({kFirstMoment, "momentum_buffer", parameter.moment});
}

void add_buffer_update(OptimizerKernels& kernels) {
  kernels.add("scale_momentum", {kFirstMoment}, {kFirstMoment});
  kernels.add("add_gradient", {kFirstMoment, kGradient}, {kFirstMoment});
}

void add_sgd_kernels(const OptimizerSpec& spec, OptimizerImplementation /*form*/,
                     const FrameworkRules& /*rules*/, OptimizerKernels& kernels) {
  add_decayed_gradient(spec, kernels);
  kernels.add("update", {kWeights, kGradient}, {kWeights}, 2);
}

void add_momentum_kernels(const OptimizerSpec& spec, OptimizerImplementation /*form*/,
                          const FrameworkRules& /*rules*/, OptimizerKernels& kernels) {
  add_decayed_gradient(spec, kernels);
  add_buffer_update(kernels);
  kernels.add("update", {kWeights, kFirstMoment}, {kWeights}, 2);
}

// The foreach form adds to the gradients themselves, the loop makes a tensor.
void add_nesterov_kernels(const OptimizerSpec& spec, OptimizerImplementation form,
                          const FrameworkRules& /*rules*/, OptimizerKernels& kernels) {
  const bool loop = form == OptimizerImplementation::kLoop;
  add_decayed_gradient(spec, kernels);
  add_buffer_update(kernels);
  kernels.add("look_ahead", {kGradient, kFirstMoment}, {loop ? kTemporary : kGradient}, 2);
  if (loop) kernels.read_gradient_from(kTemporary);
  kernels.add("update", {kWeights, kGradient}, {kWeights}, 2);
}

int decayed_gradients(const OptimizerSpec& spec) {
  return spec.weight_decay > 0 ? 1 : 0;
}

}  // namespace
}  // namespace sgd_detail

const OptimizerAlgorithm& sgd_optimizer() {
  static constexpr OptimizerAlgorithm kSgd{
      .name = "sgd",
      .summary = "no state",
      .forms = {true, true, true},
      .takes_momentum = true,
      .with_momentum = momentum_optimizer,
      .add_states = sgd_detail::add_no_state,
      .add_kernels = sgd_detail::add_sgd_kernels,
      .add_fused = [](const OptimizerSpec& /*spec*/, OptimizerKernels& k) { add_fused_update(k); },
      .loop_temporaries = [](const OptimizerSpec& spec, const FrameworkRules& /*rules*/,
                             const Shape& /*shape*/) -> LoopTemporaries {
        return {.inside = sgd_detail::decayed_gradients(spec)};
      }};
  return kSgd;
}

const OptimizerAlgorithm& momentum_optimizer() {
  static constexpr OptimizerAlgorithm kMomentum{
      .name = "momentum",
      .summary = sgd_detail::kMomentumSummary,
      .forms = {true, true, true},
      .momentum = 0.9,
      .add_states = sgd_detail::add_momentum_buffer,
      .add_kernels = sgd_detail::add_momentum_kernels,
      .add_fused = [](const OptimizerSpec& /*spec*/,
                      OptimizerKernels& k) { add_fused_moment_update(k); },
      // buf.mul_(momentum) beside the decayed gradient.
      .loop_temporaries = [](const OptimizerSpec& spec, const FrameworkRules& rules,
                             const Shape& /*shape*/) -> LoopTemporaries {
        return {.inside = sgd_detail::decayed_gradients(spec),
                .scalars = scalar_temporaries(rules, DType::kFloat32)};
      }};
  return kMomentum;
}

const OptimizerAlgorithm& nesterov_optimizer() {
  static constexpr OptimizerAlgorithm kNesterov{
      .name = "nesterov",
      .summary = sgd_detail::kMomentumSummary,
      .forms = {true, true, true},
      .momentum = 0.9,
      .add_states = sgd_detail::add_momentum_buffer,
      .add_kernels = sgd_detail::add_nesterov_kernels,
      .add_fused = [](const OptimizerSpec& /*spec*/,
                      OptimizerKernels& k) { add_fused_moment_update(k); },
      // grad.add(buf) comes after buf.mul_.
      .loop_temporaries = [](const OptimizerSpec& spec, const FrameworkRules& /*rules*/,
                             const Shape& /*shape*/) -> LoopTemporaries {
        return {.inside = 1 + sgd_detail::decayed_gradients(spec)};
      }};
  return kNesterov;
}

}  // namespace tidemark
