#include "graph/operators/family.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "graph/autodiff/gradient_tape.hpp"
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

std::string_view NodeView::family_name() const {
  return graph_.nodes[node_].family->name;
}

bool Inference::any_input_requires_grad() const {
  for (TensorId id : graph_.nodes[node_].inputs) {
    if (id.valid() && graph_.tensors[id].requires_grad) return true;
  }
  return false;
}

void Inference::create(Shape shape, DType dtype, Strides strides) {
  for (std::int64_t extent : shape) {
    require(extent >= 1, fmt::format("its result would have the shape {}", to_string(shape)));
  }
  Node& node = graph_.nodes[node_];
  Tensor tensor{.storage = {},
                .dtype = dtype,
                .shape = shape,
                .strides = strides,
                .requires_grad = is_floating(dtype) && any_input_requires_grad()};
  tensor.storage = graph_.storages.push_back({.bytes = tensor.bytes(),
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

void Inference::create_scalar_in(std::int64_t elements, DType dtype) {
  create({}, dtype);
  const Tensor& scalar = graph_.tensors[graph_.nodes[node_].outputs.back()];
  graph_.storages[scalar.storage].bytes = Bytes(elements * size_of(dtype));
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

bool NodeView::has_input(std::size_t index) const {
  const Node& node = graph_.nodes[node_];
  return index < node.inputs.size() && node.inputs[index].valid();
}

Work NodeView::elementwise_work(OperatorClass op_class, double flops_per_element) const {
  Work work{.op_class = op_class, .dtype = output().dtype};
  work.flops = Flops(flops_per_element * static_cast<double>(output().elements()));
  for (std::size_t i = 0; i < input_count(); ++i) {
    if (has_input(i)) work.read += input(i).bytes();
  }
  for (TensorId out : graph_.nodes[node_].outputs)
    work.written += graph_.tensors[out].bytes();
  return work;
}

bool BackwardBuilder::has_output_gradient(std::size_t index) const {
  const TensorId out = node_.graph().nodes[node_.id()].outputs[index];
  return tape_.gradient_of(out).has_value();
}

Tensor BackwardBuilder::output_gradient(std::size_t index) const {
  const TensorId out = node_.graph().nodes[node_.id()].outputs[index];
  if (!tape_.gradient_of(out)) {
    throw InternalError(
        fmt::format("{}: output {} has no gradient", node_.graph().describe(node_.id()), index));
  }
  return *tape_.gradient_of(out);
}

Tensor BackwardBuilder::saved(std::string_view name) const {
  return tape_.saved(node_.id(), name);
}

Tensor BackwardBuilder::create(std::string_view name, const Shape& shape, DType dtype) {
  return tape_.create(name, shape, dtype);
}

void BackwardBuilder::launch(const Kernel& kernel) {
  tape_.launch(kernel);
}

void BackwardBuilder::launch_elementwise(std::string_view name, std::vector<Tensor> reads,
                                         const Tensor& result, OperatorClass op_class,
                                         double flops_per_element, Bytes workspace) {
  Work work{.op_class = op_class, .dtype = result.dtype};
  work.flops = Flops(flops_per_element * static_cast<double>(result.elements()));
  for (const Tensor& t : reads)
    work.read += t.bytes();
  work.written = result.bytes();
  launch({.name = name,
          .reads = std::move(reads),
          .creates = {result},
          .mutates = {},
          .work = work,
          .workspace = workspace});
}

Tensor BackwardBuilder::contiguous(const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  const Tensor copy = create_like("contiguous_gradient", tensor);
  launch_elementwise("contiguous", {tensor}, copy, OperatorClass::kElementwise, 0);
  return copy;
}

Tensor BackwardBuilder::sum_to(const Tensor& gradient, const Shape& shape) {
  if (gradient.shape == shape) return gradient;
  if (element_count(gradient.shape) == element_count(shape)) {
    Tensor view = gradient;
    view.shape = shape;
    if (view_strides(gradient.shape, gradient.strides, shape, view.strides)) return view;
  }
  const Tensor sum = create("summed_gradient", shape, gradient.dtype);
  Work work{.op_class = OperatorClass::kReduction, .dtype = gradient.dtype};
  work.flops = Flops(static_cast<double>(gradient.elements()));
  work.read = gradient.bytes();
  work.written = sum.bytes();
  launch(
      {.name = "sum_to_size", .reads = {gradient}, .creates = {sum}, .mutates = {}, .work = work});
  return sum;
}

void BackwardBuilder::set_input_gradient(std::size_t index, const Tensor& gradient) {
  if (!needs_gradient(index)) return;
  tape_.add_result(node_.graph().nodes[node_.id()].inputs[index], gradient);
}

Shape broadcast_shapes(const Inference& inference, const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  for (int i = 1; i <= shorter.rank(); ++i) {
    const std::int64_t x = longer[-i];
    const std::int64_t y = shorter[-i];
    inference.require(x == y || x == 1 || y == 1,
                      fmt::format("shapes {} and {} do not broadcast: {} and {} differ at axis -{}",
                                  to_string(a), to_string(b), x, y, i));
    result[-i] = std::max(x, y);
  }
  return result;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (size_of(a) != size_of(b)) return size_of(a) > size_of(b) ? a : b;
  return DType::kFloat32;  // fp16 with bf16
}

}  // namespace tidemark
