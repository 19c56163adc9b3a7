// Checkpointing of repeated blocks, as torch.utils.checkpoint does it.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/core/decoder.hpp"
#include "policies/plan/policy.hpp"

namespace tidemark {

// The code by which PyTorch recomputes a segment, and what it keeps meanwhile
// (torch/utils/checkpoint.py, use_reentrant).
enum class CheckpointCode : std::uint8_t {
  // An autograd function whose backward calls backward: until it returns it keeps the segment's
  // input, the output that it recomputed, and the gradient that it was given. Its random state
  // lives as long as the graph: until the loss is dropped.
  kReentrant,
  // Saved-tensor hooks: the segment's input and random state are variables of the hooks, until the
  // last of the segment's saved tensors has been used.
  kHooks,
};
// Reads the key `reentrant`.
[[nodiscard]] CheckpointCode decode_checkpoint_code(const Decoder& d);

inline constexpr std::string_view kCheckpointSource =
    "Chen et al. 2016 (arXiv 1604.06174); torch.utils.checkpoint";

// Drops everything that the segment's forward makes and backward needs, and recomputes the whole
// segment before its first use in backward.
void recompute_segment(const PolicyContext& context, const BlockRegion& segment,
                       ResidencyPlan& plan, CheckpointCode code = CheckpointCode::kReentrant);

}  // namespace tidemark
