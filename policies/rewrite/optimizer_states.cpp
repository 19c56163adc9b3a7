#include "policies/rewrite/optimizer_states.hpp"

namespace tidemark {

std::vector<OptimizerState> optimizer_states(const OptimizerSpec& spec,
                                             OptimizerImplementation implementation,
                                             const FrameworkRules& rules,
                                             const UpdatedTensor& tensor, DType weights,
                                             bool master_weights) {
  // torch.optim's counter; optimizers that keep master weights count in Python.
  const bool fused = implementation == OptimizerImplementation::kFused;
  const Bytes counter = fused ? rules.fused_adam_step_bytes : rules.adam_step_bytes;
  std::vector<OptimizerState> states;
  spec.kind->add_states(spec,
                        {.elements = tensor.elements.count,
                         .shape = tensor.shape,
                         .moment = bytes_of(weights, tensor.elements),
                         .counter = master_weights ? Bytes(0) : counter},
                        states);
  return states;
}

// Finds the matrices. The head is the matrix that forward reads last; a tied one is an embedding as
// well.
IdVector<ParameterId, char> muon_matrices(const TrainingGraph& graph) {
  IdVector<StorageId, ParameterId> parameter(graph.storages.size());
  IdVector<ParameterId, char> chosen(graph.parameters.size(), 0);
  for (ParameterId id : graph.trained) {
    parameter[graph.parameters[id].storage] = id;
    chosen[id] = graph.parameters[id].shape.rank() >= 2 ? 1 : 0;
  }
  ParameterId head;
  for (OperatorId id : graph.part(PartKind::kForward)) {
    for (const Touch& touch : graph.touches_of(id)) {
      const ParameterId read = parameter[touch.storage];
      if (!read.valid()) continue;
      if (graph.operators[id].work.op_class == OperatorClass::kEmbedding) chosen[read] = 0;
      if (graph.parameters[read].shape.rank() >= 2) head = read;
    }
  }
  if (head.valid()) chosen[head] = 0;
  return chosen;
}

}  // namespace tidemark
