// Kernels of compiled code that write over one of their inputs.
#pragma once

#include "graph/ir/training_graph.hpp"
#include "policies/compile/partition.hpp"

namespace tidemark {

// Lets a kernel write a result over an input of the same type and size that nothing reads any more,
// as Inductor's inplace_buffers does (torch/_inductor/scheduler.py, decide_inplace_update), where
// the same pass of its own compiled function has made the input: what forward has saved is an input
// of the backward function, which may write over it (donated buffers) only since PyTorch 2.5. What
// a variable, the caller or the next step still has stays, and so does what a kernel of `moves`
// reads: it puts elements elsewhere. Layouts are taken to be the same where type and size are.
void write_over_inputs(TrainingGraph& graph, CompileScope scope,
                       const IdVector<OperatorId, char>& moves);

}  // namespace tidemark
