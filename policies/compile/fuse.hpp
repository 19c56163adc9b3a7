// Kernels that Inductor makes of several operators.
#pragma once

#include "graph/ir/training_graph.hpp"
#include "policies/compile/partition.hpp"

namespace tidemark {

// Joins runs of operators that can be fused (is_fusible) in forward and in backward: one kernel
// reads what the run reads and writes what others read; values that only the run touches need no
// memory. A run stays within one block, so that blocks can still be recomputed one by one. Holds
// follow: a compiled function has no variables and frees a tensor behind its last reader; what runs
// eagerly keeps its own.
void fuse_operators(TrainingGraph& graph, CompileScope scope);

}  // namespace tidemark
