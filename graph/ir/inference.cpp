#include "graph/ir/inference.hpp"

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {

bool Inference::has_input(std::size_t index) const {
  const Node& node = graph_.nodes[node_];
  return index < node.inputs.size() && node.inputs[index].valid();
}

const Tensor& Inference::input(std::size_t index) const {
  if (!has_input(index)) fail(fmt::format("input {} is missing", index));
  return graph_.tensors[graph_.nodes[node_].inputs[index]];
}

std::string_view Inference::family_name() const {
  return graph_.nodes[node_].family->name;
}

int Inference::family_variant() const {
  return graph_.nodes[node_].family->variant;
}

bool Inference::any_input_requires_grad() const {
  for (TensorId id : graph_.nodes[node_].inputs) {
    if (id.valid() && graph_.tensors[id].requires_grad) return true;
  }
  return false;
}

void Inference::create(Shape shape, DType dtype, Strides strides) {
  for (std::int64_t extent : shape) {
    require(extent >= 1,
            [&] { return fmt::format("its result would have the shape {}", to_string(shape)); });
  }
  Node& node = graph_.nodes[node_];
  Tensor tensor{.storage = {},
                .dtype = dtype,
                .shape = shape,
                .strides = strides,
                .requires_grad = is_floating(dtype) && any_input_requires_grad()};
  tensor.storage = graph_.storages.push_back({.bytes = tensor.bytes(),
                                              .dtype = dtype,
                                              .elements = tensor.elements(),
                                              .role = Role::kTemporary,
                                              .layer = node.layer,
                                              .initial = false,
                                              .persistent = false,
                                              .name = std::string(node.family->name)});
  node.outputs.push_back(graph_.tensors.push_back(tensor));
}

void Inference::view(std::size_t input_index, Shape shape, Strides strides) {
  Tensor tensor = input(input_index);
  tensor.shape = shape;
  tensor.strides = strides;
  tensor.requires_grad = is_floating(tensor.dtype) && any_input_requires_grad();
  graph_.nodes[node_].outputs.push_back(graph_.tensors.push_back(tensor));
}

void Inference::in_place(std::size_t input_index) {
  const Tensor tensor = input(input_index);
  view(input_index, tensor.shape, tensor.strides);
  graph_.nodes[node_].in_place = true;
}

void Inference::create_scalar_in(Elements elements, DType dtype) {
  create({}, dtype);
  const Tensor& scalar = graph_.tensors[graph_.nodes[node_].outputs.back()];
  Storage& storage = graph_.storages[scalar.storage];
  storage.elements = elements;
  storage.bytes = bytes_of(dtype, elements);
}

void Inference::set_role(Role role) {
  const TensorId last = graph_.nodes[node_].outputs.back();
  graph_.storages[graph_.tensors[last].storage].role = role;
}

void Inference::follow_gradient(bool follows) {
  graph_.tensors[graph_.nodes[node_].outputs.back()].requires_grad = follows;
}

void Inference::fail(const std::string& problem) const {
  std::string shapes;
  for (TensorId id : graph_.nodes[node_].inputs) {
    if (!id.valid()) continue;
    if (!shapes.empty()) shapes += ", ";
    shapes += to_string(graph_.tensors[id].shape);
  }
  throw UserError(
      fmt::format("{}: {} (inputs have shapes {})", graph_.describe(node_), problem, shapes));
}

}  // namespace tidemark
