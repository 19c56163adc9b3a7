#include "policies/rewrite/optimizer_states.hpp"

namespace tidemark {

std::vector<OptimizerState> optimizer_states(const OptimizerSpec& spec,
                                             OptimizerImplementation implementation,
                                             const FrameworkRules& rules,
                                             const UpdatedTensor& tensor, DType weights,
                                             bool master_weights, ParameterUse use) {
  // torch.optim's counter; optimizers that keep master weights count in Python.
  const bool fused = implementation == OptimizerImplementation::kFused;
  const Bytes counter = fused ? rules.fused_adam_step_bytes : rules.adam_step_bytes;
  std::vector<OptimizerState> states;
  spec.kind->add_states(spec,
                        {.elements = tensor.elements,
                         .shape = tensor.shape,
                         .type = weights,
                         .moment = bytes_of(weights, tensor.elements),
                         .counter = master_weights ? Bytes(0) : counter,
                         .use = use},
                        states);
  return states;
}

ParameterUses parameter_uses(const TrainingGraph& graph) {
  IdVector<StorageId, ParameterId> parameter(graph.storages.size());
  ParameterUses uses(graph.parameters.size(), ParameterUse::kOther);
  IdVector<ParameterId, char> looked_up(graph.parameters.size(), 0);
  for (ParameterId id : graph.trained) {
    parameter[graph.parameters[id].storage] = id;
    if (graph.parameters[id].shape.rank() >= 2) uses[id] = ParameterUse::kMatrix;
  }
  ParameterId head;
  for (OperatorId id : graph.part(PartKind::kForward)) {
    for (const Touch& touch : graph.touches_of(id)) {
      const ParameterId read = parameter[touch.storage];
      if (!read.valid()) continue;
      if (graph.operators[id].work.op_class == OperatorClass::kEmbedding) looked_up[read] = 1;
      if (graph.parameters[read].shape.rank() >= 2) head = read;
    }
  }
  if (head.valid()) uses[head] = ParameterUse::kHead;
  for (ParameterId id : graph.trained) {
    if (looked_up[id] != 0) uses[id] = ParameterUse::kEmbedding;
  }
  return uses;
}

ParameterUse use_of(const ParameterUses& uses, const UpdatedTensor& tensor) {
  return tensor.parameter.valid() ? uses[tensor.parameter] : ParameterUse::kOther;
}

}  // namespace tidemark
