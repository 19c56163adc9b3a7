// Names of the modules that operators belong to, also for what lies outside of every module: what
// people call it, "loss" or "optimizer", else the kind of operator.
#pragma once

#include <string_view>

#include "graph/ir/training_graph.hpp"

namespace tidemark {

class ModuleNames {
 public:
  explicit ModuleNames(const TrainingGraph& graph);

  // Returns the layer of an operator, "loss" for the nodes from the loss function on and their
  // backward, "optimizer" for the optimizer's own operators, and else the operator's family.
  [[nodiscard]] std::string_view of(OperatorId id) const;
  // Returns the layer of a storage, "inputs" for what the loader delivers, else the name of what
  // made it; empty where it is there from the start.
  [[nodiscard]] std::string_view of(StorageId id) const;

 private:
  const TrainingGraph& graph_;
  NodeId first_of_loss_;                        // invalid: none
  IdVector<StorageId, OperatorId> created_by_;  // invalid where it is there from the start
};

}  // namespace tidemark
