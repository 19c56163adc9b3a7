// Rules by which framework versions differ in what they keep and when they free it. Data in one
// place: operators ask these rules and never the name of a version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

// Versions of the framework that a device's figures tell apart: the size of its CUDA context and
// the time that its host takes for an operator (ByFramework in hwprofiles/device_profile.hpp).
enum class FrameworkEra : std::uint8_t { kTorch19, kTorch113, kTorch21, kTorch24 };
inline constexpr std::size_t kFrameworkEras = 4;
[[nodiscard]] constexpr std::string_view name_of(FrameworkEra era) {
  constexpr std::string_view kNames[] = {"torch_1_9", "torch_1_13", "torch_2_1", "torch_2_4"};
  return kNames[static_cast<int>(era)];
}

struct FrameworkRules {
  std::string_view name;
  std::string_view source;
  FrameworkEra era = FrameworkEra::kTorch24;

  // --- Features that came with a version ---
  bool has_fused_attention = true;      // F.scaled_dot_product_attention, 2.0
  bool has_compiler = true;             // torch.compile, 2.0
  bool has_cuda_graphs = true;          // torch.cuda.graph, 1.10
  bool has_expandable_segments = true;  // expandable_segments of the caching allocator, 2.1

  // --- Kernels that run differently, their temporaries and what they keep ---
  // Convolutions copy operands into oneDNN's blocked layout; cuDNN transforms the filters.
  bool blocked_convolutions = false;
  // Transposed convolutions unfold a sample into columns and add the bias by a product with ones.
  bool unfolds_transposed_convolutions = false;
  // LSTM, GRU and RNN run step by step, each step autograd nodes of its own; cuDNN runs all layers
  // in one call with a reserve.
  bool unrolls_recurrence = false;
  // Interpolation tabulates an index and a weight for each place along an axis.
  bool tabulates_interpolation = false;
  // Batch norm sums each channel into tensors of its own before mean and invstd are made.
  bool sums_channels_apart = false;
  // Batch norm's backward makes a second buffer of its input's size.
  bool buffers_batch_norm_gradient = false;
  // Weight and bias gradients of layer norm are summed in a buffer of two rows.
  bool sums_layer_norm_gradients_in_rows = false;
  // Softmax converts its input in a kernel before, not inside.
  bool converts_before_softmax = false;
  // softmax and log_softmax keep their input, too, although backward reads only its type.
  bool softmax_saves_input = false;
  // Softmax's backward multiplies gradient and output into a tensor of its own first.
  bool softmax_gradient_product = true;
  // log_sigmoid keeps exp(-|x|) for backward.
  bool keeps_logsigmoid_buffer = false;
  // Gradients of embeddings and indices sort the indices together with their positions.
  bool sorts_indices = true;
  // Number of tensors of the logits' size that binary cross-entropy with logits makes on its way.
  int bce_logits_temporaries = 2;
  // A Python number beside a tensor is a tensor of 8 bytes, converted to the other one's type; on
  // CUDA it is an argument of the kernel.
  bool scalars_are_tensors = false;
  // The kernels of torch.optim's foreach form take lists of tensors; elsewhere one tensor each.
  bool multi_tensor_kernels = true;
  // x[:, i] is slice and select: a slice written without an end is an operator also where it takes
  // everything, and its backward fills zeros of the whole size. Known of 1.13 only: 2.4 is
  // simulated without.
  bool whole_slices_are_operators = false;
  // F.linear runs as one addmm over any number of axes in 2.x; 1.13 does so for three axes in
  // row-major order only, otherwise it multiplies, then adds the bias in place.
  bool linear_flattens_any_rank = true;
  // torch.matmul expands the weight and runs bmm where the two inner axes of three are transposed
  // (should_fold). 2.x folds, by a copy, whatever weight needs a gradient.
  bool multiplies_transposed_rows_in_batches = false;
  // Autocast's lists are those of CPU 1.13: shorter, and with cross_entropy_loss as a whole.
  bool cpu_autocast_lists = false;

  // --- Memory that is kept, and when it is freed ---
  // Dropout keeps its noise as a bool mask (native_dropout on CUDA) or in the input's dtype (CPU).
  bool dropout_mask_is_bool = true;
  // Mean and rstd of layer and group norm are fp32 whatever the input's dtype.
  bool norm_statistics_in_fp32 = true;
  // A Python scalar operand of mul or div is an 8-byte tensor that autograd saves.
  bool saves_python_scalars = false;
  // Gradients that meet at a fork are added into the first one when nobody else holds it.
  bool adds_gradients_in_place = true;
  // mean(dim) saves its input (1.13 only).
  bool mean_saves_input = false;
  // Backward of an operator keeps its incoming gradient, saved tensors and results together until
  // it returns, and module code keeps its variables until it returns. `ideal` frees at last touch.
  bool holds = true;
  // zero_grad drops gradients (2.x) rather than filling them with zeros (1.13).
  bool zero_grad_drops = true;
  // The implementation of torch.optim that a step uses unless training chooses one.
  std::string_view optimizer_implementation = "foreach";
  // The foreach optimizers add the decayed weights to the gradients in place, and make new lists
  // where they change one element by element: 1.13's first form of them.
  bool foreach_decays_in_place = false;
  bool foreach_makes_new_lists = false;
  // Copies of all parameters that foreach Adam makes during a step.
  int foreach_adam_temporaries = 1;
  // cuBLAS takes a workspace from the caching allocator at the first product of a stream and keeps
  // it, cuDNN one per convolution; their sizes are the device's (DeviceProfile::framework).
  bool library_workspaces = false;
  // Before, cuBLAS took its workspace from the driver: it is part of the CUDA context.
  bool caches_cublas_workspace = true;
  // Bytes of the `step` counter per parameter that live on the device (torch.optim.Adam). The fused
  // kernel reads its counters, so they are on the device where those of the other forms are not.
  Bytes adam_step_bytes;
  Bytes fused_adam_step_bytes;
  // Random state that torch.utils.checkpoint keeps per segment in the memory of the device, and
  // once more while it recomputes the segment (fork_rng). That of the CPU and of CUDA devices are
  // both host tensors.
  Bytes checkpoint_random_state;
  // Without use_reentrant a recomputation ends as soon as autograd has saved everything that it had
  // saved in forward (torch/utils/checkpoint.py from 2.1 on, set_checkpoint_early_stop).
  bool checkpoint_stops_early = false;
};

// Returns the profiles: torch-2.4-cuda (default), torch-2.1-cuda, torch-1.13-cuda, torch-1.9-cuda,
// torch-1.13-cpu and ideal.
[[nodiscard]] std::span<const FrameworkRules> framework_profiles();
[[nodiscard]] const FrameworkRules* find_framework(std::string_view name);

}  // namespace tidemark
