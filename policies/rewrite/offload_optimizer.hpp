// Optimizer state and update on the host, after ZeRO-Offload, Twin-Flow and Megatron-Core.
//
//   d2h        [g0][g1][g2]                    gradients, while or after backward makes them
//   host           [step 0][step 1][step 2]    at the host's memory bandwidth
//   h2d                    [p0]    [p1]   [p2] overlap: an operator per parameter
//
// The first parameters in the order of model.parameters() are updated on the host, until they make
// `ratio` of all elements (Megatron-Core HybridDeviceOptimizer's first-fit prefix; Twin-Flow,
// deepspeed-offloadpp); the device updates the rest meanwhile. Without overlap one operator updates
// all of them. Gradients are copied when the step begins (Megatron), or as backward produces them:
// then they live on the host, and with gradient accumulation the earlier sum comes back, is added
// to on the device and leaves again, two copies per micro-batch (DeepSpeed, stage_1_and_2.py).
//
// Delayed by one step (ZeRO-Offload, section 5.2) the host updates weights of its own while the
// device runs the next step with the old ones; there they are replaced before the next update:
//
//   compute   [forward, backward t][forward, backward t + 1]
//   host      [update t - 1]       [update t]
//   h2d                       [p]                       [p]
//
// With tier nvme the state lives on disk (ZeRO-Infinity, DeepSpeed pipelined_optimizer_swapper.py):
// groups of at most `sub_group` elements are read, updated and written back. With overlap the next
// group is read while one is updated, and a group is written while the next is updated:
//
//   nvme_read   [r0][r1]    [r2]
//   host            [step 0][step 1][step 2]
//   nvme_write              [w0]    [w1]    [w2]
#pragma once

#include "policies/registry.hpp"

namespace tidemark {

[[nodiscard]] const PolicyEntry& offload_optimizer_entry();

}  // namespace tidemark
