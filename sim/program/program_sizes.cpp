#include "sim/program/program_sizes.hpp"

#include <cmath>

#include "graph/ir/convolutions.hpp"

namespace tidemark {

Bytes workspace_bytes(const Operator& op, const LibraryWorkspaces& libraries) {
  if (!is_convolution(op.work.op_class)) return op.workspace;
  return Bytes(std::llround(static_cast<double>(op.workspace.count) * libraries.convolution));
}

void take_sizes(StepProgram& program, const TrainingGraph& graph, const ProgramOrder& order,
                const LibraryWorkspaces& libraries) {
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] != Opcode::kAllocate) continue;
    const AllocationId id(program.subject[i]);
    Allocation& allocation = program.allocations[id];
    if (allocation.storage.valid()) {
      allocation.bytes = graph.storages[allocation.storage].bytes;
    } else if (id == program.matmul_workspace) {
      allocation.bytes = libraries.matmul;
    } else if (allocation.role == Role::kWorkspace) {
      const OperatorId op = order.at[program.position[i]].op;
      allocation.bytes = workspace_bytes(graph.operators[op], libraries);
    }
  }
  for (Message& message : program.messages) {
    const OperatorId op(program.subject[message.instruction]);
    message.bytes = graph.operators[op].work.collective.bytes;
  }
}

}  // namespace tidemark
