#include "graph/ir/graph.hpp"

#include <fmt/format.h>

#include "graph/ir/inference.hpp"

namespace tidemark {

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
                        .storage = tensor.storage,
                        .updated = tensor.storage});
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

}  // namespace tidemark
