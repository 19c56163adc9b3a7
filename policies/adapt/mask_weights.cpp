#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/operators/family.hpp"
#include "graph/operators/known_families.hpp"
#include "graph/rewrite/graph_copy.hpp"
#include "policies/adapt/product_weights.hpp"
#include "policies/adapt/prune.hpp"

namespace tidemark {
namespace mask_weights_detail {
namespace {

// The pre-hook of a module's forward: the product replaces the last step's and stays an attribute.
TensorId masked(GraphCopy& copy, const Parameter& parameter, TensorId weight, LayerId layer) {
  Graph& graph = copy.result();
  const Tensor tensor = graph.tensors[weight];
  const TensorId mask =
      graph.add_buffer(parameter.name + "_mask", tensor.shape, tensor.dtype, layer);
  const NodeId product = graph.add_node(*find_family("mul"), {mask, weight}, {}, layer);
  graph.locals.push_back({graph.output(product), NodeId()});
  return graph.output(product);
}

}  // namespace
}  // namespace mask_weights_detail

Graph mask_weights(const Graph& graph, const NamePatterns& patterns) {
  const IdVector<TensorId, ParameterId> weights = product_weights(graph, patterns, "prune");
  IdVector<TensorId, TensorId> product;
  product.assign(graph.tensors.size(), TensorId());
  return rewrite_graph(graph, [&](GraphCopy& copy, NodeId id) {
    const Node& node = graph.nodes[id];
    std::vector<TensorId> inputs = copy.inputs_of(id);
    if (multiplies_weight(node)) {
      const TensorId weight = node.inputs[kProductWeight];
      if (weights[weight].valid()) {
        if (!product[weight].valid()) {
          product[weight] = mask_weights_detail::masked(copy, graph.parameters[weights[weight]],
                                                        copy.at(weight), node.layer);
        }
        inputs[kProductWeight] = product[weight];
      }
    }
    copy.keep(id, std::move(inputs), node.attributes);
  });
}

Graph store_two_of_four(const Graph& graph, const NamePatterns& patterns) {
  constexpr std::int64_t kRows = 32;  // torch/sparse/semi_structured.py, 16-bit types
  constexpr std::int64_t kColumns = 64;
  const IdVector<TensorId, ParameterId> weights = product_weights(graph, patterns, "prune");
  Graph result = graph;
  for (TensorId id : ids_of(weights)) {
    if (!weights[id].valid()) continue;
    const Parameter& parameter = graph.parameters[weights[id]];
    const Shape& shape = parameter.shape;
    const bool fits = shape.rank() == 2 && shape[0] % kRows == 0 && shape[1] % kColumns == 0;
    if (bits_of(parameter.dtype) != 16 || !fits) {
      throw UserError(
          {}, "policies.prune.method",
          fmt::format("2:4 kernels take 16-bit matrices of {} x {} elements or "
                      "multiples of them, and '{}' is {} {}; name the layers that fit",
                      kRows, kColumns, parameter.name, to_string(shape), name_of(parameter.dtype)));
    }
    Storage& storage = result.storages[parameter.storage];
    storage.bytes = Bytes(storage.bytes.count / 16 * 9);
    storage.dtype = DType::kByte;
    storage.elements = Elements(0);
  }
  for (Node& node : result.nodes) {
    if (node.family == &linear_family() && weights[node.inputs[kProductWeight]].valid())
      node.attributes.set("two_of_four", std::int64_t{1});
  }
  return result;
}

}  // namespace tidemark
