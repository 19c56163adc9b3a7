// The options that PYTORCH_CUDA_ALLOC_CONF and torch.cuda.set_per_process_memory_fraction set, as
// PyTorch 2.4 understands them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "graph/core/units.hpp"
#include "sim/memory/torch/roundup_intervals.hpp"

namespace tidemark {

// The version whose rules are modelled; a newer PyTorch would be another name.
inline constexpr std::string_view kTorchAllocatorVersion = "torch-2.4";

inline constexpr Bytes kNoSplitLimit{std::numeric_limits<std::int64_t>::max()};

struct TorchAllocatorOptions {
  Bytes max_split_size = kNoSplitLimit;         // blocks of at least this are never split
  RoundupDivisions roundup_power2_divisions{};  // 0: round to 512 bytes
  // share of what the memory fraction allows; 0: never collects
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  std::optional<double> memory_fraction;  // share of the device that PyTorch may reserve
  // The last step is captured as a CUDA graph, the steps before warm up: its memory comes from a
  // private pool. The training script does this, not PYTORCH_CUDA_ALLOC_CONF.
  bool cuda_graph = false;
  // Options that PyTorch accepts without effect on where memory goes are only checked:
  // release_lock_on_cudamalloc, pinned_use_cuda_host_register, pinned_num_register_threads,
  // backend.
};

// Reads "max_split_size_mb:128,roundup_power2_divisions:[256:1,512:2,>:4]". Throws
// std::invalid_argument with what is wrong and, for a misspelt option, the nearest known one.
[[nodiscard]] TorchAllocatorOptions parse_alloc_conf(std::string_view text);

// Reads the value of roundup_power2_divisions alone: "4" or "[256:1,512:2,>:4]", keys in MiB.
[[nodiscard]] RoundupDivisions parse_roundup_divisions(std::string_view text);

// Reads the keys of a scenario's `allocator`: conf (a text as above; a key beside it wins over the
// same option in it, so that `-s`, sweeps and suggestions can change one option), max_split_size,
// roundup_power2_divisions (a number, a text, or {256MiB: 1, ">": 4}),
// garbage_collection_threshold, expandable_segments, memory_fraction, cuda_graph, version. Throws
// UserError.
[[nodiscard]] TorchAllocatorOptions decode_torch_options(const Decoder& allocator);

}  // namespace tidemark
