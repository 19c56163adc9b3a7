// Tensors of random numbers. Autograd keeps nothing for them: only shape and type count.
#include <optional>

#include <fmt/format.h>

#include "graph/import/onnx/element_type.hpp"
#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {
namespace onnx_random {

// The type that a node names, or nothing.
std::optional<DType> named_type(OnnxLowering& l) {
  const auto* code = l.node().find<std::int64_t>("dtype");
  if (code == nullptr) return std::nullopt;
  const auto known = onnx_element_type(*code);
  if (!known) l.fail(fmt::format("element type {} is not simulated", *code));
  return l.model_type(*known);
}

void set_random(OnnxLowering& l, const std::vector<std::int64_t>& extents, DType dtype) {
  static_cast<void>(l.shape(extents));
  l.set(l.builder().add("zeros", {}, {{"shape", extents}, {"dtype", std::string(name_of(dtype))}}));
}

// torch.rand and torch.randn.
void lower_of_shape(OnnxLowering& l) {
  const DType dtype = named_type(l).value_or(l.model_type(DType::kFloat32));
  set_random(l, l.node().list("shape"), dtype);
}

// torch.rand_like, randn_like and bernoulli. The exporter always names the type, even that of x.
void lower_like(OnnxLowering& l) {
  const Tensor x = l.builder().tensor(l.operand(0));
  const DType dtype = named_type(l).value_or(x.dtype);
  if (dtype == x.dtype) return l.set(l.builder().add("random_like", {l.operand(0)}));
  set_random(l, {x.shape.begin(), x.shape.end()}, dtype);
}

constexpr OnnxOperator kOperators[] = {
    {"RandomNormal", lower_of_shape}, {"RandomUniform", lower_of_shape},
    {"RandomNormalLike", lower_like}, {"RandomUniformLike", lower_like},
    {"Bernoulli", lower_like},
};

}  // namespace onnx_random

std::span<const OnnxOperator> onnx_random_operators() {
  return onnx_random::kOperators;
}

}  // namespace tidemark
