// bitsandbytes' AdamW8bit: Optimizer2State with moments of one byte.
#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace adamw_8bit_detail {
namespace {

using enum OptimizerTensor;

constexpr std::int64_t kBlockElements = 2048;  // bitsandbytes, optimizer_update_8bit_blockwise
constexpr std::int64_t kSmallest8bit = 4096;   // bitsandbytes, min_8bit_size
constexpr std::int64_t kScaleBytes = 4;        // one fp32 number per block

// Blocks of 2,048 elements with one fp32 scale each; fp32 moments below 4,096 elements.
void add_8bit_states(const OptimizerSpec& /*spec*/, const OptimizedParameter& parameter,
                     std::vector<OptimizerState>& states) {
  const bool small = parameter.elements < kSmallest8bit;
  const Bytes moment(parameter.elements * (small ? std::int64_t{sizeof(float)} : 1));
  states.push_back({kFirstMoment, "state1", moment});
  states.push_back({kSecondMoment, "state2", moment});
  if (small) return;
  const Bytes scales((parameter.elements + kBlockElements - 1) / kBlockElements * kScaleBytes);
  states.push_back({kFirstScales, "absmax1", scales});
  states.push_back({kSecondScales, "absmax2", scales});
}

void add_fused_8bit(const OptimizerSpec& /*spec*/, OptimizerKernels& kernels) {
  kernels.add("fused",
              {kGradient, kWeights, kFirstMoment, kSecondMoment, kFirstScales, kSecondScales},
              {kWeights, kFirstMoment, kSecondMoment, kFirstScales, kSecondScales, kParameter}, 20);
}

}  // namespace
}  // namespace adamw_8bit_detail

const OptimizerAlgorithm& adamw_8bit_optimizer() {
  static constexpr OptimizerAlgorithm kAdamW8bit{
      .name = "adamw_8bit",
      .summary =
          "2 moments of 1 byte and 2 fp32 scales per 2048 of them, fp32 below 4096 elements "
          "(Dettmers et al. 2022, bitsandbytes)",
      .forms = {false, false, true},
      .weight_decay = 0.01,
      .add_states = adamw_8bit_detail::add_8bit_states,
      .add_fused = adamw_8bit_detail::add_fused_8bit,
      .one_kernel_per_parameter = true,
      .on_host = false};
  return kAdamW8bit;
}

}  // namespace tidemark
