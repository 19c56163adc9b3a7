#include "policies/rewrite/optimizer_states.hpp"

namespace tidemark {

std::vector<OptimizerState> optimizer_states(const OptimizerSpec& spec,
                                             OptimizerImplementation implementation,
                                             const FrameworkRules& rules,
                                             const TrainedParameter& parameter, DType weights,
                                             bool master_weights) {
  // torch.optim's counter; optimizers that keep master weights count in Python.
  const bool fused = implementation == OptimizerImplementation::kFused;
  const Bytes counter = fused ? rules.fused_adam_step_bytes : rules.adam_step_bytes;
  std::vector<OptimizerState> states;
  spec.kind->add_states(spec,
                        {.elements = parameter.elements,
                         .shape = parameter.shape,
                         .moment = Bytes(parameter.elements * size_of(weights)),
                         .counter = master_weights ? Bytes(0) : counter},
                        states);
  return states;
}

// The head is the matrix that forward reads last; a tied one is an embedding as well.
std::vector<char> muon_matrices(const TrainingGraph& graph) {
  IdVector<StorageId, std::size_t> entry(graph.storages.size(), graph.trained.size());
  for (std::size_t i = 0; i < graph.trained.size(); ++i)
    entry[graph.trained[i].parameter] = i;
  std::vector<char> chosen(graph.trained.size(), 0);
  for (std::size_t i = 0; i < graph.trained.size(); ++i)
    chosen[i] = graph.trained[i].shape.rank() >= 2 ? 1 : 0;
  std::size_t head = graph.trained.size();
  for (OperatorId id : graph.forward) {
    for (const Touch& touch : graph.touches_of(id)) {
      const std::size_t i = entry[touch.storage];
      if (i == graph.trained.size()) continue;
      if (graph.operators[id].work.op_class == OperatorClass::kEmbedding) chosen[i] = 0;
      if (graph.trained[i].shape.rank() >= 2) head = i;
    }
  }
  if (head < chosen.size()) chosen[head] = 0;
  return chosen;
}

}  // namespace tidemark
