// bitsandbytes' AdamW8bit, paged and not: Optimizer2State with moments of one byte.
#include <array>

#include "policies/optimizers/entries.hpp"
#include "policies/optimizers/spec.hpp"

namespace tidemark {
namespace adamw_8bit_detail {
namespace {

using enum OptimizerTensor;

constexpr std::int64_t kBlockElements = 256;  // bitsandbytes 0.44, optimizer_update_8bit_blockwise
constexpr Elements kSmallest8bit{4096};       // bitsandbytes, min_8bit_size
constexpr std::int64_t kScaleBytes = 4;       // one fp32 number per block

// Blocks of 256 elements with one fp32 scale each; fp32 moments below 4,096 elements, and of
// embeddings where their module asks for it (StableEmbedding, transformers' Trainer). The two
// tables of 256 fp32 codes, once per optimizer, are not counted.
void add_8bit_states(const OptimizerSpec& spec, const OptimizedParameter& parameter,
                     std::vector<OptimizerState>& states) {
  const bool whole = parameter.elements < kSmallest8bit ||
                     (spec.embeddings_in_fp32 && parameter.use == ParameterUse::kEmbedding);
  const Bytes moment(parameter.elements.count * (whole ? std::int64_t{sizeof(float)} : 1));
  states.push_back({kFirstMoment, "state1", moment});
  states.push_back({kSecondMoment, "state2", moment});
  if (whole) return;
  const Bytes scales((parameter.elements.count + kBlockElements - 1) / kBlockElements *
                     kScaleBytes);
  states.push_back({kFirstScales, "absmax1", scales});
  states.push_back({kSecondScales, "absmax2", scales});
}

void add_fused_8bit(const OptimizerSpec& /*spec*/, OptimizerKernels& kernels) {
  kernels.add("fused",
              {kGradient, kWeights, kFirstMoment, kSecondMoment, kFirstScales, kSecondScales},
              {kWeights, kFirstMoment, kSecondMoment, kFirstScales, kSecondScales, kParameter}, 20);
}

constexpr OptimizerAlgorithm bitsandbytes(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .forms = {false, false, true},
          .weight_decay = 0.01,
          .takes_embeddings = true,
          .add_states = add_8bit_states,
          .add_fused = add_fused_8bit,
          .one_kernel_per_parameter = true,
          .synchronises = true,  // torch.cuda.synchronize() behind each parameter
          .on_host = false};
}

}  // namespace
}  // namespace adamw_8bit_detail

const OptimizerAlgorithm& adamw_8bit_optimizer() {
  static constexpr std::array<OptimizerLibrary, 2> kLibraries{
      {{"bitsandbytes", adamw_8bit_optimizer}, {"torchao", adamw_8bit_torchao}}};
  static constexpr OptimizerAlgorithm kAdamW8bit = [] {
    OptimizerAlgorithm algorithm = adamw_8bit_detail::bitsandbytes(
        "adamw_8bit",
        "2 moments of 1 byte and 2 fp32 scales per 256 of them, fp32 below 4096 elements "
        "(Dettmers et al. 2022, bitsandbytes since 0.44)");
    algorithm.libraries = kLibraries;
    return algorithm;
  }();
  return kAdamW8bit;
}

// Its states are memory that CUDA manages: they count on the device, where they stay as long as
// there is room.
const OptimizerAlgorithm& paged_adamw_8bit_optimizer() {
  static constexpr OptimizerAlgorithm kPaged = adamw_8bit_detail::bitsandbytes(
      "paged_adamw_8bit",
      "the states of adamw_8bit in pages that CUDA moves to the host when the device is full; "
      "counted on the device (bitsandbytes)");
  return kPaged;
}

}  // namespace tidemark
