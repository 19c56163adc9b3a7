// Activations that exporters write as several operators: gelu, silu, logsigmoid, hardswish, mish,
// glu, rsqrt.
#include <cmath>

#include <fmt/format.h>

#include "graph/import/onnx/onnx_match.hpp"

namespace tidemark {
namespace onnx_activation_lowering {

constexpr std::size_t kEither = OnnxMatch::kEither;

// Compares with a tolerance: constants stand in the file as float32 or float16.
bool is_about(std::optional<double> value, double wanted) {
  return value && std::abs(*value - wanted) <= 1e-3 * std::abs(wanted);
}

// F.gelu: x / sqrt(2), Erf, + 1, times x, times 0.5.
bool match_gelu(OnnxLowering& l) {
  if (!is_about(l.scalar(1), std::sqrt(2.0))) return false;
  OnnxMatch m(l);
  const OnnxValueId x = l.node().inputs[0];
  const OnnxValueId erf = m.next("Erf", l.node().outputs.front(), 0);
  if (!erf.valid()) return false;
  const OnnxValueId sum = m.next("Add", erf, kEither);
  if (!sum.valid() || !is_about(m.number_beside(sum, erf), 1)) return false;
  const OnnxValueId product = m.next("Mul", sum, kEither, x);
  if (!product.valid()) return false;
  const OnnxValueId result = m.next("Mul", product, kEither);
  if (!result.valid() || !is_about(m.number_beside(result, product), 0.5)) return false;
  m.finish(result, l.builder().activation("gelu", l.operand(0)));
  return true;
}

// F.gelu(approximate="tanh"): 0.5 x (1 + tanh(0.797885 (x + 0.044715 x (x x)))).
bool match_gelu_tanh(OnnxLowering& l) {
  const OnnxValueId x = l.node().inputs[0];
  if (l.node().inputs.size() != 2 || l.node().inputs[1] != x) return false;
  OnnxMatch m(l);
  const OnnxValueId cube = m.next("Mul", l.node().outputs.front(), kEither, x);
  if (!cube.valid()) return false;
  const OnnxValueId scaled = m.next("Mul", cube, kEither);
  if (!scaled.valid() || !is_about(m.number_beside(scaled, cube), 0.044715)) return false;
  const OnnxValueId inner = m.next("Add", scaled, kEither, x);
  if (!inner.valid()) return false;
  const OnnxValueId argument = m.next("Mul", inner, kEither);
  if (!argument.valid() || !is_about(m.number_beside(argument, inner), 0.7978845608)) return false;
  const OnnxValueId tanh = m.next("Tanh", argument, 0);
  if (!tanh.valid()) return false;
  const OnnxValueId sum = m.next("Add", tanh, kEither);
  if (!sum.valid() || !is_about(m.number_beside(sum, tanh), 1)) return false;
  const OnnxValueId product = m.next("Mul", sum, kEither, x);
  if (!product.valid()) return false;
  const OnnxValueId result = m.next("Mul", product, kEither);
  if (!result.valid() || !is_about(m.number_beside(result, product), 0.5)) return false;
  m.finish(result, l.builder().activation("gelu_tanh", l.operand(0)));
  return true;
}

// Matches x times a function of the same x; the gate of squeeze and excitation multiplies another
// tensor.
bool match_gate(OnnxLowering& l, std::string_view family) {
  OnnxMatch m(l);
  const OnnxValueId result = m.next("Mul", l.node().outputs.front(), kEither, l.node().inputs[0]);
  if (!result.valid()) return false;
  m.finish(result, l.activation(family, l.operand(0)));
  return true;
}

bool match_silu(OnnxLowering& l) {
  return match_gate(l, "silu");
}

// F.logsigmoid: Log(Sigmoid(x)).
bool match_logsigmoid(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId result = m.next("Log", l.node().outputs.front(), 0);
  if (!result.valid()) return false;
  m.finish(result, l.builder().add("logsigmoid", {l.operand(0)}));
  return true;
}

// Matches HardSwish, which sets before 14 do not have.
bool match_hardswish(OnnxLowering& l) {
  return is_about(l.node().get<double>("alpha", 0.2), 1.0 / 6) && match_gate(l, "hardswish");
}

// x tanh(softplus(x))
bool match_mish(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId tanh = m.next("Tanh", l.node().outputs.front(), 0);
  if (!tanh.valid()) return false;
  const OnnxValueId result = m.next("Mul", tanh, kEither, l.node().inputs[0]);
  if (!result.valid()) return false;
  m.finish(result, l.activation("mish", l.operand(0)));
  return true;
}

// a sigmoid(b) of the two halves of an axis.
bool match_glu(OnnxLowering& l) {
  if (l.node().outputs.size() != 2 || !l.node().outputs[0].valid() ||
      !l.node().outputs[1].valid()) {
    return false;
  }
  OnnxMatch m(l);
  const OnnxValueId gate = m.next("Sigmoid", l.node().outputs[1], 0);
  if (!gate.valid()) return false;
  const OnnxValueId result = m.next("Mul", gate, kEither, l.node().outputs[0]);
  if (!result.valid() || l.uses().readers[l.node().outputs[0]].size() != 1) return false;
  m.finish(result, l.builder().add("glu", {l.operand(0)}, {{"axis", l.node().integer("axis")}}));
  return true;
}

// torch.rsqrt: 1 / Sqrt(x).
bool match_rsqrt(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId root = l.node().outputs.front();
  OnnxValueId result = m.next("Reciprocal", root, 0);
  if (!result.valid()) {
    result = m.next("Div", root, 1);
    if (!result.valid() || m.operand_number(result, 0) != 1.0) return false;
  }
  m.finish(result, l.builder().add("rsqrt", {l.operand(0)}));
  return true;
}

constexpr OnnxPattern kActivationPatterns[] = {
    {"Div", match_gelu},
    {"Mul", match_gelu_tanh},
    {"Sigmoid", match_silu},
    {"Sigmoid", match_logsigmoid},
    {"HardSigmoid", match_hardswish},
    {"Softplus", match_mish},
    {"Split", match_glu},
    {"Sqrt", match_rsqrt},
};

}  // namespace onnx_activation_lowering

std::span<const OnnxPattern> onnx_activation_patterns() {
  return onnx_activation_lowering::kActivationPatterns;
}

}  // namespace tidemark
