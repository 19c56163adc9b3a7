#include "graph/operators/framework.hpp"

#include <array>

namespace tidemark {
namespace framework_detail {
namespace {

constexpr FrameworkRules kTorch24Cuda{
    .name = "torch-2.4-cuda",
    .source = "PyTorch 2.4 sources: autograd engine, native CUDA kernels, torch.optim",
    .blocked_convolutions = false,
    .unfolds_transposed_convolutions = false,
    .unrolls_recurrence = false,
    .tabulates_interpolation = false,
    .sums_channels_apart = false,
    .buffers_batch_norm_gradient = false,
    .sums_layer_norm_gradients_in_rows = false,
    .converts_before_softmax = false,
    .softmax_gradient_product = true,
    .keeps_logsigmoid_buffer = false,
    .sorts_indices = true,
    .bce_logits_temporaries = 2,
    .scalars_are_tensors = false,
    .multi_tensor_kernels = true,
    .whole_slices_are_operators = false,
    .linear_flattens_any_rank = true,
    .multiplies_transposed_rows_in_batches = false,
    .cpu_autocast_lists = false,
    .dropout_mask_is_bool = true,
    .norm_statistics_in_fp32 = true,
    .saves_python_scalars = false,
    .adds_gradients_in_place = true,
    .mean_saves_input = false,
    .holds = true,
    .zero_grad_drops = true,
    .optimizer_implementation = "foreach",
    .foreach_decays_in_place = false,
    .foreach_makes_new_lists = false,
    .foreach_adam_temporaries = 1,
    .library_workspaces = true,
    .adam_step_bytes = Bytes(0),
    .fused_adam_step_bytes = Bytes(4),
    .checkpoint_random_state = Bytes(0)};

constexpr FrameworkRules kTorch113Cpu{
    .name = "torch-1.13-cpu",
    .source = "measured on PyTorch 1.13.1, CPU kernels, to the byte",
    .blocked_convolutions = true,
    .unfolds_transposed_convolutions = true,
    .unrolls_recurrence = true,
    .tabulates_interpolation = true,
    .sums_channels_apart = true,
    .buffers_batch_norm_gradient = true,
    .sums_layer_norm_gradients_in_rows = true,
    .converts_before_softmax = true,
    .softmax_gradient_product = false,
    .keeps_logsigmoid_buffer = true,
    .sorts_indices = false,
    .bce_logits_temporaries = 5,
    .scalars_are_tensors = true,
    .multi_tensor_kernels = false,
    .whole_slices_are_operators = true,
    .linear_flattens_any_rank = false,
    .multiplies_transposed_rows_in_batches = true,
    .cpu_autocast_lists = true,
    .dropout_mask_is_bool = false,
    .norm_statistics_in_fp32 = false,
    .saves_python_scalars = true,
    .adds_gradients_in_place = false,
    .mean_saves_input = true,
    .holds = true,
    .zero_grad_drops = false,
    .optimizer_implementation = "loop",
    .foreach_decays_in_place = true,
    .foreach_makes_new_lists = true,
    .foreach_adam_temporaries = 2,
    .library_workspaces = false,
    .adam_step_bytes = Bytes(4),
    .fused_adam_step_bytes = Bytes(4),
    .checkpoint_random_state = Bytes(5056)};

// Returns the kernels of CUDA under a framework that holds nothing and keeps no memory of its own.
constexpr FrameworkRules ideal() {
  FrameworkRules rules = kTorch24Cuda;
  rules.name = "ideal";
  rules.source = "no framework: every value is freed right after its last touch";
  rules.holds = false;
  rules.optimizer_implementation = "fused";
  rules.foreach_adam_temporaries = 0;
  rules.library_workspaces = false;
  rules.fused_adam_step_bytes = Bytes(0);
  return rules;
}

constexpr std::array<FrameworkRules, 3> kProfiles = {kTorch24Cuda, kTorch113Cpu, ideal()};

}  // namespace
}  // namespace framework_detail

std::span<const FrameworkRules> framework_profiles() {
  return framework_detail::kProfiles;
}

const FrameworkRules* find_framework(std::string_view name) {
  for (const FrameworkRules& rules : framework_detail::kProfiles) {
    if (rules.name == name) return &rules;
  }
  return nullptr;
}

}  // namespace tidemark
