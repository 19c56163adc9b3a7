// Names and places of a compiled step's instructions and allocations, for people.
#pragma once

#include <string>

#include "graph/core/ids.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/step/compiled.hpp"

namespace tidemark {

class AllocationNames {
 public:
  AllocationNames(const TrainingGraph& graph, const Compiled& compiled);

  // The operator that runs at an instruction, with its place in the step.
  struct Place {
    int step = 0;
    Phase phase = Phase::kForward;
    OperatorId op;
  };
  [[nodiscard]] Place place(std::uint32_t instruction) const;
  [[nodiscard]] std::string operator_name(OperatorId op) const;
  [[nodiscard]] std::string layer_name(OperatorId op) const;

  // Returns the operator for which an allocation was allocated.
  [[nodiscard]] OperatorId made_by(AllocationId allocation) const;
  // Whether the allocation exists before the first operator runs, as parameters do.
  [[nodiscard]] bool is_initial(AllocationId allocation) const;
  // Names the tensor of an allocation. Memory without a storage belongs to a kernel, to cuBLAS or
  // to the code that checkpoints.
  [[nodiscard]] std::string tensor_of(AllocationId allocation) const;
  [[nodiscard]] std::string layer_of(AllocationId allocation) const;

 private:
  const TrainingGraph& graph_;
  const Compiled& compiled_;
  IdVector<AllocationId, std::uint32_t> allocated_at_;  // the instruction that allocates
};

}  // namespace tidemark
