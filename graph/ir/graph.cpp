#include "graph/ir/graph.hpp"

#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "graph/ir/inference.hpp"

namespace tidemark {
namespace graph_detail {
namespace {

[[noreturn]] void broken(const Graph& graph, std::string_view what) {
  throw InternalError(fmt::format("forward graph of {}: {}", graph.name, what));
}

// Checks the nodes in their order; `maker` is the node that makes each tensor, invalid for roots.
void check_nodes(const Graph& graph, const IdVector<TensorId, NodeId>& maker) {
  for (const NodeId id : ids_of(graph.nodes)) {
    const Node& node = graph.nodes[id];
    if (node.family == nullptr) broken(graph, "a node has no family");
    if (node.layer.valid() && !graph.layers.contains(node.layer))
      broken(graph, "a node names a layer that does not exist");
    for (const TensorId input : node.inputs) {
      if (!input.valid()) continue;  // an optional input
      if (!graph.tensors.contains(input))
        broken(graph, "a node reads a tensor that does not exist");
      if (maker[input].valid() && maker[input] >= id)
        broken(graph, fmt::format("{} reads what a later node makes", graph.describe(id)));
    }
  }
}

IdVector<TensorId, NodeId> makers(const Graph& graph) {
  IdVector<TensorId, NodeId> maker(graph.tensors.size());
  for (const NodeId id : ids_of(graph.nodes)) {
    for (const TensorId output : graph.nodes[id].outputs) {
      if (!graph.tensors.contains(output) || maker[output].valid())
        broken(graph, fmt::format("{} makes what is made already", graph.describe(id)));
      maker[output] = id;
    }
  }
  return maker;
}

}  // namespace
}  // namespace graph_detail

LayerId Graph::add_layer(std::string layer_name, int block) {
  return layers.push_back({.name = std::move(layer_name), .block = block});
}

TensorId Graph::add_root(std::string root_name, Shape shape, DType dtype, LayerId layer,
                         Role role) {
  Tensor tensor{
      .storage = {}, .dtype = dtype, .shape = shape, .strides = contiguous_strides(shape)};
  tensor.storage = storages.push_back({.bytes = tensor.bytes(),
                                       .dtype = dtype,
                                       .elements = tensor.elements(),
                                       .role = role,
                                       .layer = layer,
                                       .initial = true,
                                       .persistent = true,
                                       .name = std::move(root_name)});
  return tensors.push_back(tensor);
}

TensorId Graph::add_parameter(std::string parameter_name, Shape shape, DType dtype, LayerId layer,
                              bool trained) {
  const TensorId id = add_root(std::move(parameter_name), shape, dtype, layer, Role::kParameter);
  Tensor& tensor = tensors[id];
  tensor.requires_grad = trained;
  parameters.push_back({.name = storages[tensor.storage].name,
                        .layer = layer,
                        .shape = shape,
                        .dtype = dtype,
                        .elements = tensor.elements(),
                        .trained = trained,
                        .tensor = id,
                        .storage = tensor.storage});
  return id;
}

TensorId Graph::add_buffer(std::string buffer_name, Shape shape, DType dtype, LayerId layer) {
  return add_root(std::move(buffer_name), shape, dtype, layer, Role::kBuffer);
}

TensorId Graph::add_input(std::string input_name, Shape shape, DType dtype) {
  return add_root(std::move(input_name), shape, dtype, {}, Role::kInput);
}

NodeId Graph::add_node(const OperatorFamily& family, std::vector<TensorId> inputs,
                       Attributes attributes, LayerId layer) {
  const NodeId id = nodes.push_back({.family = &family,
                                     .attributes = std::move(attributes),
                                     .inputs = std::move(inputs),
                                     .outputs = {},
                                     .layer = layer,
                                     .in_place = false});
  Inference inference(*this, id);
  family.infer(inference);
  return id;
}

std::string Graph::describe(NodeId node) const {
  const Node& n = nodes[node];
  const std::string_view layer =
      n.layer.valid() ? std::string_view(layers[n.layer].name) : std::string_view(name);
  return fmt::format("{}: {}", layer, n.family->name);
}

void check_invariants(const Graph& graph) {
  for (const Tensor& tensor : graph.tensors) {
    if (!graph.storages.contains(tensor.storage))
      graph_detail::broken(graph, "a tensor has no storage");
  }
  graph_detail::check_nodes(graph, graph_detail::makers(graph));
  for (const Layer& layer : graph.layers) {
    if (layer.block < kNoBlock || layer.block >= graph.blocks)
      graph_detail::broken(graph, fmt::format("layer {} is in no block of it", layer.name));
  }
  for (const Parameter& parameter : graph.parameters) {
    if (!graph.tensors.contains(parameter.tensor) || !graph.storages.contains(parameter.storage))
      graph_detail::broken(graph, fmt::format("parameter {} has no tensor", parameter.name));
  }
  for (const LocalVariable& local : graph.locals) {
    const bool ends = !local.until.valid() || graph.nodes.contains(local.until);
    if (!graph.tensors.contains(local.tensor) || !ends)
      graph_detail::broken(graph, "a variable names a tensor or a node that does not exist");
  }
  std::vector<TensorId> results = graph.other_outputs;
  results.insert(results.end(), {graph.logits, graph.loss});
  for (const TensorId result : results) {
    if (result.valid() && !graph.tensors.contains(result))
      graph_detail::broken(graph, "an output of the model does not exist");
  }
}

}  // namespace tidemark
