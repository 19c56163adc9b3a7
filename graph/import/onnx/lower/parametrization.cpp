// Weights that a module computes before its forward pass: nn.utils.weight_norm.
#include "graph/import/onnx/onnx_match.hpp"

namespace tidemark {
namespace onnx_parametrization {

// Whether the norm goes over all axes but the first or all but the last: those that torch's one
// kernel takes. Other axes run operator by operator.
bool keeps_outer_axis(const Shape& direction, const Shape& magnitude) {
  const int rank = direction.rank();
  if (magnitude.rank() != rank || rank < 2) return false;
  int kept = 0;
  for (int axis = 0; axis < rank; ++axis)
    kept += magnitude[axis] != 1 ? 1 : 0;
  return kept == 0 ||
         (kept == 1 && (magnitude[0] == direction[0] || magnitude[-1] == direction[-1]));
}

// v / ReduceL2(v) times g, of two parameters.
bool match_weight_norm(OnnxLowering& l) {
  const OnnxValueId v = l.node().inputs[0];
  if (!l.is_initializer(v) || l.node().integer("keepdims", 1) == 0) return false;
  OnnxMatch m(l);
  const OnnxValueId direction = m.next("Div", l.node().outputs.front(), 1, v);
  if (!direction.valid()) return false;
  const OnnxValueId weight = m.next("Mul", direction, OnnxMatch::kEither);
  if (!weight.valid()) return false;
  const OnnxNode& product = m.node_of(weight);
  const OnnxValueId g = product.inputs[product.inputs[0] == direction ? 1 : 0];
  if (!l.is_initializer(g)) return false;
  ModelBuilder& b = l.builder();
  if (!keeps_outer_axis(b.shape(l.tensor(v)), b.shape(l.tensor(g)))) return false;
  const TensorId result = b.add("weight_norm", {l.tensor(v), l.tensor(g)});
  b.keep_in_module(result);
  m.finish(weight, result);
  return true;
}

constexpr OnnxPattern kPatterns[] = {{"ReduceL2", match_weight_norm}};

}  // namespace onnx_parametrization

std::span<const OnnxPattern> onnx_parametrization_patterns() {
  return onnx_parametrization::kPatterns;
}

}  // namespace tidemark
