// torchao's AdamW8bit and AdamW4bit: moments as codes with an fp32 scale per block, updated in fp32
// by one compiled kernel per parameter.
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace adamw_torchao_detail {
namespace {

using enum OptimizerTensor;

constexpr Elements kSmallest{4096};  // torchao.optim, _new_buffer
constexpr std::int64_t kScaleBytes = 4;

// Moments of small tensors, and of those that are no multiple of a block, have the type of the
// parameter. The tables of codes, one per state tensor, are not counted.
void add_states(DType codes, std::int64_t block, const OptimizedParameter& parameter,
                std::vector<OptimizerState>& states) {
  const bool whole = parameter.elements < kSmallest || parameter.elements.count % block != 0;
  const Bytes moment = whole ? parameter.moment : bytes_of(codes, parameter.elements);
  states.push_back({kFirstMoment, "exp_avg", moment});
  states.push_back({kSecondMoment, "exp_avg_sq", moment});
  if (whole) return;
  const Bytes scales(parameter.elements.count / block * kScaleBytes);
  states.push_back({kFirstScales, "exp_avg.scale", scales});
  states.push_back({kSecondScales, "exp_avg_sq.scale", scales});
}

void add_kernel(const OptimizerSpec& /*spec*/, OptimizerKernels& kernels) {
  kernels.add("fused",
              {kGradient, kWeights, kFirstMoment, kSecondMoment, kFirstScales, kSecondScales},
              {kWeights, kFirstMoment, kSecondMoment, kFirstScales, kSecondScales, kParameter}, 24);
}

}  // namespace
}  // namespace adamw_torchao_detail

const OptimizerAlgorithm& adamw_8bit_torchao() {
  static constexpr OptimizerAlgorithm kAdamW8bit{
      .name = "adamw_8bit",
      .summary = "2 moments of 1 byte and 2 fp32 scales per 256 of them (torchao)",
      .forms = {false, false, true},
      .weight_decay = 0.01,
      .add_states =
          [](const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
             std::vector<OptimizerState>& states) {
            adamw_torchao_detail::add_states(DType::kInt8, 256, parameter, states);
          },
      .add_fused = adamw_torchao_detail::add_kernel,
      .one_kernel_per_parameter = true,
      .on_host = false};
  return kAdamW8bit;
}

const OptimizerAlgorithm& adamw_4bit_optimizer() {
  static constexpr OptimizerLibrary kLibraries[] = {{"torchao", adamw_4bit_optimizer}};
  static constexpr OptimizerAlgorithm kAdamW4bit{
      .name = "adamw_4bit",
      .summary =
          "2 moments of half a byte and 2 fp32 scales per 128 of them, in the parameter's type "
          "below 4096 elements (Li et al. 2023, torchao)",
      .forms = {false, false, true},
      .weight_decay = 0.01,
      .libraries = kLibraries,
      .add_states =
          [](const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
             std::vector<OptimizerState>& states) {
            adamw_torchao_detail::add_states(DType::kInt4, 128, parameter, states);
          },
      .add_fused = adamw_torchao_detail::add_kernel,
      .one_kernel_per_parameter = true,
      .on_host = false};
  return kAdamW4bit;
}

}  // namespace tidemark
