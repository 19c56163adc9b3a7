#include "sim/step/allocation_names.hpp"

namespace tidemark {

AllocationNames::AllocationNames(const TrainingGraph& graph, const Compiled& compiled)
    : graph_(graph),
      compiled_(compiled),
      allocated_at_(compiled.program.allocations.size(), kNoInstruction) {
  const StepProgram& program = compiled.program;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] == Opcode::kAllocate) allocated_at_[AllocationId(program.subject[i])] = i;
  }
}

AllocationNames::Place AllocationNames::place(std::uint32_t instruction) const {
  const Position p = compiled_.program.position[instruction];
  const Occurrence& o = compiled_.order.at[p];
  return {.step = o.step, .phase = compiled_.program.slot[p.index()].phase, .op = o.op};
}

std::string AllocationNames::operator_name(OperatorId op) const {
  return graph_.operators[op].name;
}

std::string AllocationNames::layer_name(OperatorId op) const {
  return std::string(graph_.layer_name(graph_.operators[op].layer));
}

OperatorId AllocationNames::made_by(AllocationId allocation) const {
  return place(allocated_at_[allocation]).op;
}

bool AllocationNames::is_initial(AllocationId allocation) const {
  const StorageId storage = compiled_.program.allocations[allocation].storage;
  return storage.valid() && graph_.storages[storage].initial;
}

std::string AllocationNames::tensor_of(AllocationId allocation) const {
  const Allocation& b = compiled_.program.allocations[allocation];
  if (b.storage.valid()) return graph_.storages[b.storage].name;
  if (allocation == compiled_.program.matmul_workspace) return "cuBLAS workspace";
  return b.role == Role::kWorkspace ? "workspace" : "random state";
}

std::string AllocationNames::layer_of(AllocationId allocation) const {
  const StorageId storage = compiled_.program.allocations[allocation].storage;
  const LayerId layer = storage.valid() ? graph_.storages[storage].layer
                                        : graph_.operators[made_by(allocation)].layer;
  return std::string(graph_.layer_name(layer));
}

}  // namespace tidemark
