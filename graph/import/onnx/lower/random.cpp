// Tensors of random numbers. Autograd keeps nothing for them: only shape and type count.
#include <fmt/format.h>

#include "graph/import/onnx/element_type.hpp"
#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {
namespace onnx_random {

void set_random(OnnxLowering& l, const std::vector<std::int64_t>& extents, DType fallback) {
  DType dtype = fallback;
  if (const auto* code = l.node().find<std::int64_t>("dtype")) {
    const auto known = onnx_element_type(*code);
    if (!known) l.fail(fmt::format("element type {} is not simulated", *code));
    dtype = *known;
  }
  static_cast<void>(l.shape(extents));
  l.set(l.builder().add(
      "zeros", {}, {{"shape", extents}, {"dtype", std::string(name_of(l.model_type(dtype)))}}));
}

// torch.rand and torch.randn.
void lower_of_shape(OnnxLowering& l) {
  set_random(l, l.node().list("shape"), DType::kFloat32);
}

// torch.rand_like, randn_like and bernoulli.
void lower_like(OnnxLowering& l) {
  const Shape& shape = l.shape_of_operand(0);
  set_random(l, {shape.begin(), shape.end()}, l.builder().tensor(l.operand(0)).dtype);
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
