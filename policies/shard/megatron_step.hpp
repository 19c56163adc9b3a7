// Megatron-LM's distributed optimizer (core/distributed/param_and_grad_buffer.py): every rank keeps
// all parameters and all gradients, each in one buffer, and updates its part of them.
//
//   backward   weight gradients are added straight into the gradient buffer; the last micro-batch
//              reduces it in place, bucket by bucket with overlap_grad_reduce
//   step       the rank's part; then the parameter buffer is gathered in place
//
// Parameters lie in the reverse order of registration, each from a multiple of 64 elements on; a
// bucket ends at a multiple of lcm(ranks, 128).
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/training_graph.hpp"
#include "policies/plan/rewrite_context.hpp"

namespace tidemark {

struct MegatronOptions {
  bool overlap_grad_reduce = false;
  // Products add weight gradients to the buffer themselves, without a tensor of their own.
  bool gradient_accumulation_fusion = true;
  std::optional<std::int64_t> bucket;  // elements; max(40e6, 1e6 x ranks) unless given
};

// Leaves the graph as it is in a group of one rank.
void share_optimizer(TrainingGraph& graph, const MegatronOptions& options,
                     const RewriteContext& context);

}  // namespace tidemark
