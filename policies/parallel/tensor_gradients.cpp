#include "policies/parallel/tensor_gradients.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace tidemark {
namespace tensor_gradients_detail {
namespace {

// Returns the gradients of which each tensor rank has a part, as backward leaves them.
std::vector<RemainingGradient> gradients_of(const TrainingGraph& graph) {
  std::vector<RemainingGradient> gradients;
  for (ParameterId id : graph.trained) {
    const Parameter& parameter = graph.parameters[id];
    if (!parameter.summed_over_tensor) continue;
    const RemainingGradient gradient = remaining_gradient(parameter);
    if (gradient.storage.valid()) gradients.push_back(gradient);
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

std::vector<OperatorId> add_sum(TrainingGraph& graph,
                                const std::vector<RemainingGradient>& gradients) {
  Storage flat{.role = Role::kCommunication, .name = "flat_gradients"};
  flat.dtype = gradients.front().dtype;
  bool alike = true;
  for (const RemainingGradient& gradient : gradients) {
    alike = alike && gradient.dtype == flat.dtype;
    flat.bytes += bytes_of(gradient.dtype, gradient.elements);
    flat.elements += gradient.elements;
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
  // A gradient may be a part of its storage, the rest of which stays as it is.
  for (const RemainingGradient& gradient : gradients) {
    const bool whole =
        graph.storages[gradient.storage].bytes == bytes_of(gradient.dtype, gradient.elements);
    in.push_back({gradient.storage, Access::kRead});
    out.push_back({gradient.storage, whole ? Access::kOverwrite : Access::kMutate});
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
  const std::vector<RemainingGradient> gradients = tensor_gradients_detail::gradients_of(graph);
  if (gradients.empty()) return;
  const std::vector<OperatorId> sum = tensor_gradients_detail::add_sum(graph, gradients);
  const auto append = [&](std::vector<OperatorId>& part) {
    part.insert(part.end(), sum.begin(), sum.end());
  };
  const std::vector<OperatorId>& accumulate = graph.part(PartKind::kBackwardAccumulate);
  if (!graph.part(PartKind::kBackwardReduceFirst).empty())
    append(graph.part(PartKind::kBackwardReduceFirst));
  if (graph.micro_batches > 1) {
    std::vector<OperatorId>& reduce = graph.part(PartKind::kBackwardReduce);
    if (reduce.empty()) reduce = accumulate;
    return append(reduce);
  }
  append(graph.part(PartKind::kBackward));
  if (!accumulate.empty()) append(graph.part(PartKind::kBackwardAccumulate));
}

}  // namespace tidemark
