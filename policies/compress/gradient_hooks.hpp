// Gradients that DistributedDataParallel's communication hooks send in fewer bytes. A hook takes
// the place of the all-reduce of a bucket:
//
//   fp16, bf16   cast | all_reduce 2 bytes per element                    | copy back
//   powersgd     += error | clone | P = M Q | all_reduce P | Q = M^T P | all_reduce Q | M = P Q^T
//   onebit       signs of bucket + error | all_to_all | average, signs    | all_gather | unpack
//
// The operators after a collective run when the next bucket is full: DDP's futures go on without
// the compute stream, which waits for all of them after backward. (torch/distributed/algorithms/
// ddp_comm_hooks/default_hooks.py and powerSGD_hook.py; compressed_allreduce of DeepSpeed's 1-bit
// optimizers, deepspeed/runtime/comm.)
#pragma once

#include <cstdint>

#include "graph/ir/training_graph.hpp"

namespace tidemark {

enum class GradientHook : std::uint8_t { kBf16, kFp16, kPowerSgd, kOneBit };

struct GradientHookOptions {
  GradientHook kind = GradientHook::kBf16;
  std::int64_t rank = 1;            // matrix_approximation_rank
  double min_compression_rate = 2;  // matrices that shrink by less are sent as they are
  bool error_feedback = true;       // use_error_feedback
};

// Replaces the all-reduces of all buckets over `ranks` data ranks. False where there are none.
bool hook_gradients(TrainingGraph& graph, const GradientHookOptions& options, int ranks);

}  // namespace tidemark
