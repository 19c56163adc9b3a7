// DeepSpeed's ZeRO (deepspeed/runtime/zero). Stages 1 and 2 keep the parameters of all ranks and
// shard what the optimizer holds, stage 2 the gradients too; stage 3 gathers parameters.
//
//   backward   [ipg buffer] ... gradient -> ipg ... | full: copy, all_reduce, own part back | ...
//   step       join own gradients (16 bit), convert to fp32, update, all_gather
//
// The ipg buffer, two with overlap, is there from the start of backward to its end, whatever the
// model needs of it. Reductions are all-reduces of a copy, DeepSpeed's default under the name
// reduce_scatter.
#pragma once

#include "graph/ir/training_graph.hpp"
#include "policies/plan/rewrite_context.hpp"
#include "policies/shard/zero_options.hpp"

namespace tidemark {

// Shards the optimizer, and gradients in stage 2, of a graph without an optimizer yet. Leaves it as
// it is in a group of one rank.
void shard_states(TrainingGraph& graph, const ZeroOptions& options, const RewriteContext& context);

}  // namespace tidemark
