// Kernels that Inductor makes of several operators.
#pragma once

#include "graph/ir/training_graph.hpp"
#include "policies/compile/partition.hpp"

namespace tidemark {

// Joins operators that can be fused (is_fusible), follow each other in forward or in backward and
// share memory, as the losses of several chunks do not: one kernel reads what they read and writes
// what others read; values that only they touch need no memory. A kernel stays within one block, so
// that blocks can still be recomputed one by one. Holds follow: a compiled function has no
// variables and frees a tensor behind its last reader; what runs eagerly keeps its own. Kernels
// write over inputs where they may (write_over_inputs.hpp).
void fuse_operators(TrainingGraph& graph, CompileScope scope);

}  // namespace tidemark
