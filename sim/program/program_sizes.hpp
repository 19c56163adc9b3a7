// The sizes in a program. Its instructions do not depend on them, so a program serves every graph
// of the same structure once its allocations and messages have that graph's sizes.
#pragma once

#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Returns the memory that an operator's kernel takes from the allocator while it runs.
[[nodiscard]] Bytes workspace_bytes(const Operator& op, const LibraryWorkspaces& libraries);

// Gives a program of `order` the sizes of a graph: allocations of storages, of workspaces and of
// the library of matrix products, and messages. Memory that frames keep stays as it is, and no
// value may be compressed off device.
void take_sizes(StepProgram& program, const TrainingGraph& graph, const ProgramOrder& order,
                const LibraryWorkspaces& libraries);

}  // namespace tidemark
