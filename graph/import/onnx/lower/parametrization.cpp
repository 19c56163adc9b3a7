// Weights that a module computes before its forward pass: nn.utils.weight_norm and spectral_norm.
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

// Returns the weight behind Reshape(weight), or behind Reshape(Transpose(weight)) where its rows
// are not the first axis; invalid when `value` is something else.
OnnxValueId weight_as_matrix(OnnxLowering& l, OnnxMatch& m, OnnxValueId value) {
  for (const std::string_view op : {"Reshape", "Transpose"}) {
    if (!l.uses().producer[value].valid()) break;
    if (!m.take_maker(value, op)) return {};
    value = m.node_of(value).inputs[0];
  }
  return l.is_parameter(value) ? value : OnnxValueId();
}

// weight / dot(u, mv(weight, v)) of a module that was exported in eval(); in training mode the
// exporter fails on the power iteration. u and v are buffers.
bool match_spectral_norm(OnnxLowering& l) {
  if (l.node().inputs.size() != 2) return false;
  OnnxMatch m(l);
  const OnnxValueId v = l.node().inputs[1];
  const OnnxValueId weight = weight_as_matrix(l, m, l.node().inputs[0]);
  if (!weight.valid() || !l.is_initializer(v) || l.is_parameter(v)) return false;
  const OnnxValueId sigma = m.next("MatMul", l.node().outputs.front(), 1);
  if (!sigma.valid()) return false;
  const OnnxValueId u = m.node_of(sigma).inputs[0];
  const OnnxValueId normalised = m.next("Div", sigma, 1, weight);
  if (!normalised.valid() || !l.is_initializer(u) || l.is_parameter(u)) return false;
  ModelBuilder& b = l.builder();
  const TensorId result = b.add("spectral_norm", {l.tensor(weight), l.tensor(u), l.tensor(v)});
  b.keep_in_module(result);
  m.finish(normalised, result);
  return true;
}

constexpr OnnxPattern kPatterns[] = {{"ReduceL2", match_weight_norm},
                                     {"MatMul", match_spectral_norm}};

}  // namespace onnx_parametrization

std::span<const OnnxPattern> onnx_parametrization_patterns() {
  return onnx_parametrization::kPatterns;
}

}  // namespace tidemark
