// Checkpointing of repeated blocks, as torch.utils.checkpoint does it.
#pragma once

#include <cstdint>
#include <optional>
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
struct CheckpointOptions {
  CheckpointCode code = CheckpointCode::kReentrant;
  // Under kHooks: recomputes no more than up to the last saved tensor (set_checkpoint_early_stop).
  std::optional<bool> early_stop = std::nullopt;  // none: as the framework does
};
// Reads the keys `reentrant` and `early_stop`.
[[nodiscard]] CheckpointOptions decode_checkpoint_options(const Decoder& d);

inline constexpr std::string_view kCheckpointSource =
    "Chen et al. 2016 (arXiv 1604.06174); torch.utils.checkpoint";

// Drops everything that the segment's forward makes and its backward needs, and recomputes the
// segment before its first use in backward. An output that the segment's own last operator saves
// and something later reads is dropped when that later reader is done.
void recompute_segment(const PolicyContext& context, const BlockRegion& segment,
                       ResidencyPlan& plan, CheckpointOptions options = {});

}  // namespace tidemark
