#include "graph/operators/backward_builder.hpp"

#include <utility>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

namespace tidemark {

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
                                         double flops_per_element, Bytes workspace,
                                         Bytes temporary) {
  Work work{.op_class = op_class, .dtype = result.dtype};
  work.flops = Flops(flops_per_element * static_cast<double>(result.elements().count));
  for (const Tensor& t : reads)
    work.read += t.bytes();
  work.written = result.bytes();
  launch({.name = name,
          .reads = std::move(reads),
          .creates = {result},
          .mutates = {},
          .work = work,
          .workspace = workspace,
          .temporary = temporary});
}

Tensor BackwardBuilder::contiguous(const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  return copied(tensor, create_like(kCopy, tensor));
}

Tensor BackwardBuilder::contiguous_inside(const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  return copied(tensor, tape_.create_workspace(kCopy, tensor.shape, tensor.dtype));
}

Tensor BackwardBuilder::copied(const Tensor& tensor, const Tensor& copy) {
  launch_elementwise("contiguous", {tensor}, copy, OperatorClass::kElementwise, 0);
  return copy;
}

Tensor BackwardBuilder::sum_to(const Tensor& gradient, const Shape& shape) {
  if (gradient.shape == shape) return gradient;
  const Tensor sum = create("summed_gradient", shape, gradient.dtype);
  Work work{.op_class = OperatorClass::kReduction, .dtype = gradient.dtype};
  work.flops = Flops(static_cast<double>(gradient.elements().count));
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

}  // namespace tidemark
