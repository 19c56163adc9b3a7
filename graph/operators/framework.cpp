#include "graph/operators/framework.hpp"

#include <array>

namespace tidemark {
namespace framework_detail {
namespace {

constexpr FrameworkRules kTorch24Cuda{
    .name = "torch-2.4-cuda",
    .source = "PyTorch 2.4 sources: autograd engine, native CUDA kernels, torch.optim",
    .era = FrameworkEra::kTorch24,
    .has_fused_attention = true,
    .has_compiler = true,
    .has_cuda_graphs = true,
    .has_expandable_segments = true,
    .blocked_convolutions = false,
    .unfolds_transposed_convolutions = false,
    .unrolls_recurrence = false,
    .tabulates_interpolation = false,
    .sums_channels_apart = false,
    .buffers_batch_norm_gradient = false,
    .sums_layer_norm_gradients_in_rows = false,
    .converts_before_softmax = false,
    .softmax_saves_input = false,
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
    .caches_cublas_workspace = true,
    .adam_step_bytes = Bytes(0),
    .fused_adam_step_bytes = Bytes(4),
    .checkpoint_random_state = Bytes(0),
    .checkpoint_stops_early = true};

constexpr FrameworkRules kTorch113Cpu{
    .name = "torch-1.13-cpu",
    .source = "measured on PyTorch 1.13.1, CPU kernels, to the byte",
    .era = FrameworkEra::kTorch24,
    .has_fused_attention = false,
    .has_compiler = false,
    .has_cuda_graphs = false,
    .has_expandable_segments = true,
    .blocked_convolutions = true,
    .unfolds_transposed_convolutions = true,
    .unrolls_recurrence = true,
    .tabulates_interpolation = true,
    .sums_channels_apart = true,
    .buffers_batch_norm_gradient = true,
    .sums_layer_norm_gradients_in_rows = true,
    .converts_before_softmax = true,
    .softmax_saves_input = false,
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
    .caches_cublas_workspace = false,
    .adam_step_bytes = Bytes(4),
    .fused_adam_step_bytes = Bytes(4),
    .checkpoint_random_state = Bytes(5056),
    .checkpoint_stops_early = false};

// The differences between 2.1 and 2.4 change no memory of a step.
constexpr FrameworkRules torch_2_1_cuda() {
  FrameworkRules rules = kTorch24Cuda;
  rules.name = "torch-2.1-cuda";
  rules.source = "PyTorch 2.0 and 2.1, as 2.4 but for the figures of the device";
  rules.era = FrameworkEra::kTorch21;
  return rules;
}

// The frontend, autograd and torch.optim are those of the measured 1.13; kernels are CUDA's.
constexpr FrameworkRules torch_1_13_cuda() {
  FrameworkRules rules = torch_2_1_cuda();
  rules.name = "torch-1.13-cuda";
  rules.source =
      "PyTorch 1.11 to 1.13: formulas and torch.optim as measured on 1.13.1 CPU, CUDA kernels; "
      "foreach and set_to_none are defaults from 2.0 on (release notes)";
  rules.era = FrameworkEra::kTorch113;
  rules.has_fused_attention = false;
  rules.has_compiler = false;
  rules.has_expandable_segments = false;
  rules.bce_logits_temporaries = kTorch113Cpu.bce_logits_temporaries;
  rules.whole_slices_are_operators = true;
  rules.linear_flattens_any_rank = false;
  rules.multiplies_transposed_rows_in_batches = true;
  rules.adds_gradients_in_place = false;
  rules.mean_saves_input = true;
  rules.zero_grad_drops = false;
  rules.checkpoint_stops_early = false;
  rules.optimizer_implementation = "loop";
  rules.foreach_decays_in_place = true;
  rules.foreach_makes_new_lists = true;
  rules.foreach_adam_temporaries = kTorch113Cpu.foreach_adam_temporaries;
  return rules;
}

constexpr FrameworkRules torch_1_9_cuda() {
  FrameworkRules rules = torch_1_13_cuda();
  rules.name = "torch-1.9-cuda";
  rules.source =
      "PyTorch 1.6 to 1.10: softmax keeps its input (pytorch#49600, mended by #65242), cuBLAS its "
      "own workspace (until #83461); matmul folds every weight, mean keeps sizes only";
  rules.era = FrameworkEra::kTorch19;
  rules.has_cuda_graphs = false;
  rules.softmax_saves_input = true;
  rules.multiplies_transposed_rows_in_batches = false;
  rules.mean_saves_input = false;
  rules.caches_cublas_workspace = false;
  return rules;
}

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

constexpr std::array<FrameworkRules, 6> kProfiles = {
    kTorch24Cuda, torch_2_1_cuda(), torch_1_13_cuda(), torch_1_9_cuda(), kTorch113Cpu, ideal()};

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
