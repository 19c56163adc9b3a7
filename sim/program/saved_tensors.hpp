// The tensors that autograd keeps at the end of forward, and the operators of backward that need
// them.
#pragma once

#include <vector>

#include "graph/analysis/liveness.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/residency_plan.hpp"

namespace tidemark {

struct SavedTensor {
  StorageId storage;
  OperatorId made_by;
  // The operators that touch it after forward, in their order, each once. For a tensor that its
  // backward node keeps but does not read, this is the operator that releases it.
  std::vector<OperatorId> needed_by;
  bool by_recomputation = false;  // the first of them is a recomputed operator
};

// Returns the saved tensors of the last micro-batch, after all policies: unique storages that live
// on the device from forward into backward, without parameters, buffers, inputs, and variables that
// backward does not read. What saved-tensor hooks keep counts as theirs, not as autograd's. Of a
// step of several turns they are those of the turn that keeps most, with what the loop shares.
[[nodiscard]] std::vector<SavedTensor> saved_tensors(const TrainingGraph& graph,
                                                     const ProgramOrder& order,
                                                     const Liveness& live,
                                                     const IdVector<GapId, Decision>& decisions);

[[nodiscard]] Bytes sum_of(const TrainingGraph& graph, const std::vector<SavedTensor>& saved);

}  // namespace tidemark
