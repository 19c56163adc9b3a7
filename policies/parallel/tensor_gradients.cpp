#include "policies/parallel/tensor_gradients.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace tidemark {
namespace tensor_gradients_detail {
namespace {

// Returns the storages that hold the summed gradients at the end of backward, each once.
std::vector<StorageId> gradients_of(const TrainingGraph& graph) {
  std::vector<StorageId> gradients;
  const auto add = [&](StorageId storage) {
    if (std::find(gradients.begin(), gradients.end(), storage) == gradients.end())
      gradients.push_back(storage);
  };
  for (ParameterId id : graph.trained) {
    const Parameter& parameter = graph.parameters[id];
    if (!parameter.summed_over_tensor) continue;
    if (graph.storages[parameter.gradient].persistent) {
      add(parameter.gradient);
      continue;
    }
    for (const UpdatedTensor& update : graph.updates) {
      if (update.parameter == id) add(update.gradient);
    }
  }
  return gradients;
}

Operator copy_operator(std::string_view name, Bytes bytes, DType dtype) {
  Operator op{.phase = Phase::kBackward,
              .work = {.op_class = OperatorClass::kElementwise,
                       .dtype = dtype,
                       .read = bytes,
                       .written = bytes}};
  op.name = name;
  return op;
}

std::vector<OperatorId> add_sum(TrainingGraph& graph, const std::vector<StorageId>& gradients) {
  Storage flat{.role = Role::kCommunication, .name = "flat_gradients"};
  flat.dtype = graph.storages[gradients.front()].dtype;
  bool alike = true;
  for (StorageId gradient : gradients) {
    const Storage& storage = graph.storages[gradient];
    alike = alike && storage.dtype == flat.dtype && storage.elements.count > 0;
    flat.bytes += storage.bytes;
    flat.elements += storage.elements;
  }
  const DType dtype = flat.dtype;
  if (!alike) {
    flat.dtype = DType::kByte;
    flat.elements = Elements(0);
  }
  const Bytes bytes = flat.bytes;
  const StorageId buffer = graph.storages.push_back(std::move(flat));
  std::vector<Touch> in{{buffer, Access::kCreate}};
  std::vector<Touch> out{{buffer, Access::kRead}};
  for (StorageId gradient : gradients) {
    in.push_back({gradient, Access::kRead});
    out.push_back({gradient, Access::kOverwrite});
  }
  Operator sum{.name = "all_reduce",
               .phase = Phase::kBackward,
               .work = {.op_class = OperatorClass::kCollective,
                        .dtype = dtype,
                        .read = bytes,
                        .written = bytes,
                        .collective = {.kind = CollectiveKind::kAllReduce,
                                       .group = MeshDimension::kTensor,
                                       .bytes = bytes}}};
  return {graph.add_operator(copy_operator("flatten_gradients", bytes, dtype), in),
          graph.add_operator(std::move(sum), std::array{Touch{buffer, Access::kMutate}}),
          graph.add_operator(copy_operator("copy_from_flat", bytes, dtype), out)};
}

}  // namespace
}  // namespace tensor_gradients_detail

void TensorGradients::apply(TrainingGraph& graph, const RewriteContext& context) const {
  if (context.mesh.size(MeshDimension::kTensor) == 1) return;
  const std::vector<StorageId> gradients = tensor_gradients_detail::gradients_of(graph);
  if (gradients.empty()) return;
  const std::vector<OperatorId> sum = tensor_gradients_detail::add_sum(graph, gradients);
  const auto append = [&](std::vector<OperatorId>& part) {
    part.insert(part.end(), sum.begin(), sum.end());
  };
  const std::vector<OperatorId>& accumulate = graph.part(PartKind::kBackwardAccumulate);
  if (graph.micro_batches > 1) {
    std::vector<OperatorId>& reduce = graph.part(PartKind::kBackwardReduce);
    if (reduce.empty()) reduce = accumulate;
    return append(reduce);
  }
  append(graph.part(PartKind::kBackward));
  if (!accumulate.empty()) append(graph.part(PartKind::kBackwardAccumulate));
}

}  // namespace tidemark
