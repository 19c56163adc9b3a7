#include "policies/adapt/product_weights.hpp"

#include <string>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/known_families.hpp"

namespace tidemark {

bool multiplies_weight(const Node& node) {
  return node.inputs.size() > kProductWeight &&
         (node.family == &linear_family() || is_convolution(*node.family));
}

namespace product_weights_detail {
namespace {

// Whether the node makes a masked weight, which is as good as the weight.
bool is_mask_product(const Graph& graph, const Node& node) {
  if (node.family != &mul_family() || node.inputs.size() != 2) return false;
  const StorageId mask = graph.tensors[node.inputs[0]].storage;
  return graph.storages[mask].role == Role::kBuffer;
}

}  // namespace
}  // namespace product_weights_detail

IdVector<TensorId, ParameterId> product_weights(const Graph& graph, const NamePatterns& patterns,
                                                std::string_view policy) {
  IdVector<TensorId, ParameterId> matched;
  matched.assign(graph.tensors.size(), ParameterId());
  for (ParameterId id : matching_parameters(graph, patterns, policy))
    matched[graph.parameters[id].tensor] = id;
  IdVector<TensorId, ParameterId> weights;
  weights.assign(graph.tensors.size(), ParameterId());
  bool any = false;
  for (const Node& node : graph.nodes) {
    if (product_weights_detail::is_mask_product(graph, node)) {
      matched[node.outputs.front()] = matched[node.inputs[1]];
      continue;
    }
    if (!multiplies_weight(node)) continue;
    const TensorId weight = node.inputs[kProductWeight];
    if (!matched[weight].valid()) continue;
    weights[weight] = matched[weight];
    any = true;
  }
  if (!any) {
    throw UserError({}, fmt::format("policies.{}.layers", policy),
                    fmt::format("none of the parameters that match is the weight of a linear layer "
                                "or a convolution of '{}'",
                                graph.name));
  }
  return weights;
}

}  // namespace tidemark
