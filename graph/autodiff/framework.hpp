// How a framework version differs in what it keeps and when it lets go. Data in one place:
// operators ask these rules and never the name of a version.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

struct FrameworkRules {
  std::string_view name;
  std::string_view source;

  // Kernels are ATen's for CPUs: their temporaries differ from those of CUDA.
  bool cpu = false;
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
  // The implementation of torch.optim that a step uses unless told otherwise.
  std::string_view optimizer_implementation = "foreach";
  // Copies of all parameters that foreach Adam makes during a step.
  int foreach_adam_temporaries = 1;
  // cuBLAS takes a workspace from the caching allocator at the first product of a stream and keeps
  // it, cuDNN one per convolution; their sizes are the device's (DeviceProfile::framework).
  bool library_workspaces = false;
  // Bytes of the `step` counter per parameter that live on the device (torch.optim.Adam). The fused
  // kernel reads its counters, so they are on the device where those of the other forms are not.
  Bytes adam_step_bytes;
  Bytes fused_adam_step_bytes;
  // Random state that torch.utils.checkpoint keeps per segment in the memory of the device. That of
  // the CPU and of CUDA devices are both host tensors.
  Bytes checkpoint_random_state;
};

// torch-2.4-cuda (default), torch-1.13-cpu, ideal.
[[nodiscard]] std::span<const FrameworkRules> framework_profiles();
[[nodiscard]] const FrameworkRules* find_framework(std::string_view name);

}  // namespace tidemark
