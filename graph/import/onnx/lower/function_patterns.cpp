// Functions that the exporter writes as several operators: log1p, log10, vector_norm, hardshrink,
// log10, softshrink, cosine_similarity, lerp, nan_to_num, cdist, and products with tensors of
// another type.
#include <algorithm>
#include <cmath>

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

// torch.log10: the exporter's divisor has an axis, log(10) of module code has none.
bool match_log10(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId result = m.next("Div", l.node().outputs.front(), 0);
  if (!result.valid()) return false;
  const OnnxConstant* divisor = l.constant(m.node_of(result).inputs[1]);
  constexpr double kTolerance = 1e-6;
  if (divisor == nullptr || !divisor->known || divisor->dims != std::vector<std::int64_t>{1} ||
      std::abs(divisor->number() - std::log(10.0)) > kTolerance) {
    return false;
  }
  m.finish(result, l.builder().add("log10", {l.operand(0)}));
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

// Returns the shape that two operands broadcast to; who widens them checks that they do.
Shape common_shape(const Shape& a, const Shape& b) {
  Shape wide = a.rank() >= b.rank() ? a : b;
  const Shape& other = a.rank() >= b.rank() ? b : a;
  for (int axis = -1; axis >= -other.rank(); --axis)
    wide[axis] = std::max(wide[axis], other[axis]);
  return wide;
}

// F.cosine_similarity: both vectors are widened to one shape and divided by their lengths, then
// multiplied and summed. The exporter divides the sum of their products by the root of the product
// of their squared lengths.
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
  const Shape common = common_shape(l.shape_of_operand(0), l.shape_of_operand(1));
  const auto widened = [&](std::size_t operand) {
    const TensorId x = l.operand(operand);
    return builder.shape(x) == common ? x : builder.expand(x, common);
  };
  const auto squared = [&](TensorId x) {
    return builder.add("sum", {builder.add("pow", {x}, {{"exponent", 2.0}})}, over);
  };
  const TensorId left = widened(0);
  const TensorId right = widened(1);
  const TensorId left_square = squared(left);
  const TensorId right_square = squared(right);
  const TensorId left_length = builder.add("sqrt", {left_square});
  const TensorId right_length = builder.add("sqrt", {right_square});
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

// torch.lerp: x + w * (end - x) where w < 0.5, else end - (end - x) * (1 - w).
bool match_lerp(OnnxLowering& l) {
  if (l.node().inputs.size() != 2) return false;
  const OnnxValueId end = l.node().inputs[0];
  const OnnxValueId x = l.node().inputs[1];
  const OnnxValueId difference = l.node().outputs.front();
  OnnxMatch m(l);
  OnnxValueId from_x;
  OnnxValueId from_end;
  OnnxValueId weight;
  for (const OnnxUse& use : l.uses().readers[difference]) {
    const OnnxNode& product = l.file().nodes[use.node];
    if (product.op != "Mul") return false;
    const OnnxValueId shift = product.outputs.front();
    if (const OnnxValueId sum = m.next("Add", shift, kEither, x); sum.valid()) {
      from_x = sum;
      weight = product.inputs[use.operand == 0 ? 1 : 0];
    } else {
      from_end = m.next("Sub", shift, 1, end);
      const OnnxValueId rest = product.inputs[use.operand == 0 ? 1 : 0];
      if (!l.number(rest) && !m.take_maker(rest, "Sub")) return false;
    }
    m.take(shift);
  }
  if (!from_x.valid() || !from_end.valid()) return false;
  const OnnxValueId result = m.next("Where", from_x, 1);
  if (!result.valid() || m.node_of(result).inputs[2] != from_end) return false;
  ModelBuilder& b = l.builder();
  std::vector<TensorId> operands{l.operand(1), l.operand(0)};
  if (!l.number(weight)) {
    if (!m.take_maker(m.node_of(result).inputs[0], "Less") || !l.tensor(weight).valid())
      return false;
    operands.push_back(l.tensor(weight));
  }
  m.finish(result, b.add("lerp", operands));
  return true;
}

// Follows one replacement of torch.nan_to_num by a limit of the type: where x is infinite and its
// sign is that of `comparison`. Returns the result.
OnnxValueId replaced_infinity(OnnxMatch& m, OnnxValueId x, std::string_view comparison) {
  const OnnxValueId sign = m.reader(comparison, x, 0);
  const OnnxValueId is_signed = sign.valid() ? m.next("Cast", sign, 0) : OnnxValueId();
  const OnnxValueId both = is_signed.valid() ? m.next("And", is_signed, 1) : OnnxValueId();
  const OnnxValueId result = both.valid() ? m.next("Where", both, 0) : OnnxValueId();
  if (!result.valid() || m.node_of(result).inputs[2] != x) return {};
  OnnxValueId infinite = m.node_of(both).inputs[0];
  for (const std::string_view op : {"Cast", "IsInf", "Cast"}) {
    if (!m.take_maker(infinite, op)) return {};
    infinite = m.node_of(infinite).inputs[0];
  }
  return infinite == x ? result : OnnxValueId();
}

bool match_nan_to_num(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId x = l.node().inputs[0];
  const OnnxValueId numbers = m.next("Where", l.node().outputs.front(), 0);
  if (!numbers.valid() || m.node_of(numbers).inputs[2] != x) return false;
  const OnnxValueId below = replaced_infinity(m, numbers, "Greater");
  const OnnxValueId result = below.valid() ? replaced_infinity(m, below, "Less") : OnnxValueId();
  if (!result.valid()) return false;
  m.finish(result, l.builder().add("nan_to_num", {l.operand(0)}));
  return true;
}

// torch.cdist: the root of the sum of (x[.., :, None, :] - y[.., None, :, :]) ** 2.
bool match_cdist(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId difference = m.next("Sub", l.node().outputs.front(), 0);
  if (!difference.valid()) return false;
  const OnnxValueId other = m.node_of(difference).inputs[1];
  if (!m.take_maker(other, "Unsqueeze")) return false;
  const OnnxValueId y = m.node_of(other).inputs[0];
  const OnnxValueId squares = m.next("Pow", difference, 0);
  const OnnxValueId sum = squares.valid() ? m.next("ReduceSum", squares, 0) : OnnxValueId();
  const OnnxValueId root = sum.valid() ? m.next("Pow", sum, 0) : OnnxValueId();
  if (!root.valid() || m.operand_number(squares, 1) != 2.0) return false;
  // The exporter's root is the power 1 / (2 + 1e-6), which nobody writes by hand.
  const auto exponent = m.operand_number(root, 1);
  if (!exponent || std::abs(*exponent - 1 / (2 + 1e-6)) > 1e-8) return false;
  const TensorId left = l.operand(0);
  const TensorId right = l.tensor(y);
  const OnnxNode& reduction = m.node_of(sum);
  const std::vector<std::int64_t> summed = l.axes_of(reduction);
  if (!right.valid() || reduction.integer("keepdims", 1) != 0 || summed.size() != 1) return false;
  if (summed[0] != -1 && summed[0] != l.builder().shape(left).rank()) return false;
  const auto axis_of = [&](const OnnxNode& node, TensorId x) {
    const std::vector<std::int64_t> axes = l.axes_of(node);
    const std::int64_t rank = l.builder().shape(x).rank() + 1;
    if (axes.size() != 1) return std::int64_t{-1};
    return rank - (axes[0] < 0 ? axes[0] + rank : axes[0]);
  };
  if (axis_of(l.node(), left) != 2 || axis_of(m.node_of(other), right) != 3) return false;
  m.finish(root, l.builder().add("cdist", {left, right}));
  return true;
}

constexpr OnnxPattern kPatterns[] = {
    {"Add", match_log1p},       {"Abs", match_vector_norm},    {"Greater", match_hardshrink},
    {"Log", match_log10},       {"Greater", match_softshrink}, {"Mul", match_cosine_similarity},
    {"Cast", match_promotion},  {"Sub", match_lerp},           {"IsNaN", match_nan_to_num},
    {"Unsqueeze", match_cdist},
};

}  // namespace onnx_function_lowering

std::span<const OnnxPattern> onnx_function_patterns() {
  return onnx_function_lowering::kPatterns;
}

}  // namespace tidemark
