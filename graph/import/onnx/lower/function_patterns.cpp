// Functions that the exporter writes as several operators: log1p, vector_norm, hardshrink,
// softshrink, cosine_similarity, and products with tensors of another type.
#include <fmt/format.h>

#include "graph/import/onnx/onnx_match.hpp"

namespace tidemark {
namespace onnx_function_lowering {

constexpr std::size_t kEither = OnnxMatch::kEither;

// torch.log1p: the exporter's 1 is the left operand of the sum, that of module code the right one.
bool match_log1p(OnnxLowering& l) {
  if (l.scalar(0) != 1.0 || l.scalar(1)) return false;
  OnnxMatch m(l);
  const OnnxValueId result = m.next("Log", l.node().outputs.front(), 0);
  if (!result.valid()) return false;
  m.finish(result, l.builder().add("log1p", {l.operand(1)}));
  return true;
}

// torch.linalg.norm: the root of the sum of |x| to the power of 2.
bool match_vector_norm(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId squares = m.next("Pow", l.node().outputs.front(), 0);
  if (!squares.valid() || m.operand_number(squares, 1) != 2.0) return false;
  const OnnxValueId sum = m.next("ReduceSum", squares, 0);
  if (!sum.valid()) return false;
  const OnnxValueId root = m.next("Pow", sum, 0);
  if (!root.valid() || m.operand_number(root, 1) != 0.5) return false;
  const OnnxNode& reduction = m.node_of(sum);
  Attributes attributes{{"keepdim", reduction.integer("keepdims", 1)}};
  if (const auto axes = l.axes_of(reduction); !axes.empty()) attributes.set("axes", axes);
  m.finish(root, l.builder().add("norm", {l.operand(0)}, attributes));
  return true;
}

// Whether `result` is a Where that takes `chosen`, or zero.
bool is_zero_elsewhere(const OnnxMatch& m, OnnxValueId result) {
  return result.valid() && m.operand_number(result, 2) == 0.0;
}

// F.hardshrink: x where x > lambda or x < -lambda.
bool match_hardshrink(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId x = l.node().inputs[0];
  const OnnxValueId above = m.next("Cast", l.node().outputs.front(), 0);
  const OnnxValueId less = above.valid() ? m.reader("Less", x, 0) : OnnxValueId();
  const OnnxValueId below = less.valid() ? m.next("Cast", less, 0) : OnnxValueId();
  const OnnxValueId outside = below.valid() ? m.next("Or", below, kEither, above) : OnnxValueId();
  const OnnxValueId result = outside.valid() ? m.next("Where", outside, 0) : OnnxValueId();
  if (!is_zero_elsewhere(m, result) || m.node_of(result).inputs[1] != x) return false;
  m.finish(result, l.builder().add("hardshrink", {l.operand(0)}));
  return true;
}

// F.softshrink: x - lambda where x > lambda, plus x + lambda where x < -lambda.
bool match_softshrink(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId x = l.node().inputs[0];
  const OnnxValueId high = m.next("Where", l.node().outputs.front(), 0);
  const OnnxValueId less = high.valid() ? m.reader("Less", x, 0) : OnnxValueId();
  const OnnxValueId low = less.valid() ? m.next("Where", less, 0) : OnnxValueId();
  const OnnxValueId result = low.valid() ? m.next("Add", low, kEither, high) : OnnxValueId();
  if (!result.valid() || !is_zero_elsewhere(m, high) || !is_zero_elsewhere(m, low)) return false;
  for (const auto& [part, op] : {std::pair(high, "Sub"), std::pair(low, "Add")}) {
    const OnnxValueId shifted = m.node_of(part).inputs[1];
    const OnnxNodeId source = l.uses().producer[shifted];
    if (!source.valid() || l.file().nodes[source].op != op ||
        l.file().nodes[source].inputs[0] != x) {
      return false;
    }
    m.take(shifted);
  }
  m.finish(result, l.builder().add("softshrink", {l.operand(0)}));
  return true;
}

// Returns the sum of squares of `x` over the axes of `like`, as the exporter writes it.
OnnxValueId squared_length(OnnxLowering& l, OnnxMatch& m, OnnxValueId x) {
  for (const OnnxUse& use : l.uses().readers[x]) {
    const OnnxNode& square = l.file().nodes[use.node];
    if (square.op != "Mul" || square.inputs[0] != x || square.inputs[1] != x) continue;
    m.take(square.outputs.front());
    return m.next("ReduceSum", square.outputs.front(), 0);
  }
  return {};
}

// F.cosine_similarity: both vectors are divided by their lengths, then multiplied and summed. The
// exporter divides the sum of their products by the root of the product of their squared lengths.
bool match_cosine_similarity(OnnxLowering& l) {
  if (l.node().inputs.size() != 2 || l.node().inputs[0] == l.node().inputs[1]) return false;
  OnnxMatch m(l);
  const OnnxValueId dot = m.next("ReduceSum", l.node().outputs.front(), 0);
  const OnnxValueId result = dot.valid() ? m.next("Div", dot, 0) : OnnxValueId();
  if (!result.valid()) return false;
  const OnnxValueId a = squared_length(l, m, l.node().inputs[0]);
  const OnnxValueId b = a.valid() ? squared_length(l, m, l.node().inputs[1]) : OnnxValueId();
  const OnnxValueId product = b.valid() ? m.next("Mul", a, kEither, b) : OnnxValueId();
  const OnnxValueId root = product.valid() ? m.next("Sqrt", product, 0) : OnnxValueId();
  const OnnxValueId divisor = root.valid() ? m.next("Max", root, 0) : OnnxValueId();
  if (!divisor.valid() || m.node_of(result).inputs[1] != divisor) return false;
  const auto axes = l.axes_of(m.node_of(dot));
  ModelBuilder& builder = l.builder();
  const Attributes over{{"axes", axes}, {"keepdim", std::int64_t{1}}};
  const auto normalized = [&](std::size_t operand) {
    const TensorId x = l.operand(operand);
    const TensorId squares = builder.add("pow", {x}, {{"exponent", 2.0}});
    const TensorId length = builder.add("sqrt", {builder.add("sum", {squares}, over)});
    return std::pair(x, length);
  };
  const auto [left, left_length] = normalized(0);
  const auto [right, right_length] = normalized(1);
  const TensorId left_unit = builder.add("div", {left, left_length});
  const TensorId right_unit = builder.add("div", {right, right_length});
  const TensorId products = builder.multiply(left_unit, right_unit);
  m.finish(result, builder.add("sum", {products}, {{"axes", axes}}));
  return true;
}

// The exporter converts a mask or a table of integers before a product with a floating tensor;
// PyTorch's product takes it as it is, and keeps it so. What forward itself computes is taken to be
// converted by module code, as in (x > 0).float().
bool match_promotion(OnnxLowering& l) {
  const OnnxNodeId reader = l.uses().only_reader(l.node().outputs.front());
  if (!reader.valid() || l.file().nodes[reader].op != "Mul") return false;
  const TensorId x = l.operand(0);
  if (!l.builder().is_root(x) || is_floating(l.builder().tensor(x).dtype)) return false;
  l.set(x);
  return true;
}

constexpr OnnxPattern kPatterns[] = {
    {"Add", match_log1p},          {"Abs", match_vector_norm},       {"Greater", match_hardshrink},
    {"Greater", match_softshrink}, {"Mul", match_cosine_similarity}, {"Cast", match_promotion},
};

}  // namespace onnx_function_lowering

std::span<const OnnxPattern> onnx_function_patterns() {
  return onnx_function_lowering::kPatterns;
}

}  // namespace tidemark
