#include "sim/step/block_names.hpp"

namespace tidemark {

BlockNames::BlockNames(const TrainingGraph& graph, const Compiled& compiled)
    : graph_(graph),
      compiled_(compiled),
      allocated_at_(compiled.program.blocks.size(), kNoInstruction) {
  const StepProgram& program = compiled.program;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.opcode[i] == Opcode::kAllocate) allocated_at_[BlockId(program.subject[i])] = i;
  }
}

BlockNames::Place BlockNames::place(std::uint32_t instruction) const {
  const Position p = compiled_.program.position[instruction];
  const Occurrence& o = compiled_.order.at[p];
  return {.step = o.step, .phase = compiled_.program.slot[p.index()].phase, .op = o.op};
}

std::string BlockNames::operator_name(OperatorId op) const {
  return graph_.operators[op].name;
}

std::string BlockNames::layer_name(OperatorId op) const {
  return std::string(graph_.layer_name(graph_.operators[op].layer));
}

OperatorId BlockNames::made_by(BlockId block) const {
  return place(allocated_at_[block]).op;
}

bool BlockNames::is_initial(BlockId block) const {
  const StorageId storage = compiled_.program.blocks[block].storage;
  return storage.valid() && graph_.storages[storage].initial;
}

std::string BlockNames::tensor_of(BlockId block) const {
  const Block& b = compiled_.program.blocks[block];
  if (b.storage.valid()) return graph_.storages[b.storage].name;
  if (block == compiled_.program.matmul_workspace) return "cuBLAS workspace";
  return b.role == Role::kWorkspace ? "workspace" : "random state";
}

std::string BlockNames::layer_of(BlockId block) const {
  const StorageId storage = compiled_.program.blocks[block].storage;
  const LayerId layer =
      storage.valid() ? graph_.storages[storage].layer : graph_.operators[made_by(block)].layer;
  return std::string(graph_.layer_name(layer));
}

}  // namespace tidemark
