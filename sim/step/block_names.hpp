// Names and places of a compiled step's instructions and blocks, for people.
#pragma once

#include <string>

#include "graph/core/ids.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/step/compiled.hpp"

namespace tidemark {

class BlockNames {
 public:
  BlockNames(const TrainingGraph& graph, const Compiled& compiled);

  // What was running: the operator at an instruction.
  struct Place {
    int step = 0;
    Phase phase = Phase::kForward;
    OperatorId op;
  };
  [[nodiscard]] Place place(std::uint32_t instruction) const;
  [[nodiscard]] std::string operator_name(OperatorId op) const;
  [[nodiscard]] std::string layer_name(OperatorId op) const;

  // The operator for which a block was allocated.
  [[nodiscard]] OperatorId made_by(BlockId block) const;
  // Whether the block exists before the first operator runs, as parameters do.
  [[nodiscard]] bool is_initial(BlockId block) const;
  // Memory without a storage belongs to a kernel, to cuBLAS or to the code that checkpoints.
  [[nodiscard]] std::string tensor_of(BlockId block) const;
  [[nodiscard]] std::string layer_of(BlockId block) const;

 private:
  const TrainingGraph& graph_;
  const Compiled& compiled_;
  IdVector<BlockId, std::uint32_t> allocated_at_;  // instruction
};

}  // namespace tidemark
