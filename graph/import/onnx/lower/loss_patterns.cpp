// Losses that the exporter takes apart: binary_cross_entropy_with_logits and kl_div.
#include "graph/import/onnx/onnx_match.hpp"

namespace tidemark {
namespace onnx_loss_lowering {

// The exporter's own ones have an axis; a Python number has none.
bool is_exported_one(OnnxLowering& l, OnnxValueId value) {
  const OnnxConstant* known = l.constant(value);
  return known != nullptr && known->dims.size() == 1 && known->elements() == Elements(1) &&
         known->known && known->number() == 1.0;
}

// Returns 1 - value, as the exporter writes it.
OnnxValueId complement(OnnxLowering& l, OnnxMatch& m, OnnxValueId value) {
  const OnnxValueId result = m.reader("Sub", value, 1);
  return result.valid() && is_exported_one(l, m.node_of(result).inputs[0]) ? result : OnnxValueId();
}

// Whether a node reduces over everything.
bool reduces_all(OnnxLowering& l, const OnnxNode& node) {
  return node.integer("keepdims", 1) == 0 && node.integer("noop_with_empty_axes") == 0 &&
         l.axes_of(node).empty();
}

// Takes the mean or sum of `value`, if that is its one reader.
OnnxValueId reduction_of(OnnxLowering& l, OnnxMatch& m, OnnxValueId value) {
  for (const std::string_view op : {"ReduceMean", "ReduceSum"}) {
    const OnnxValueId result = m.peek(op, value, 0);
    if (!result.valid() || !reduces_all(l, m.node_of(result))) continue;
    m.take(result);
    return result;
  }
  return {};
}

// Whether two values are one target. The exporter writes a constant, torch.ones_like(x), once for
// each node that reads it. Of large constants only the shape is known, and one shape is one target.
bool is_same_target(OnnxLowering& l, OnnxValueId a, OnnxValueId b) {
  if (a == b) return true;
  const OnnxConstant* one = l.constant(a);
  const OnnxConstant* other = l.constant(b);
  return one != nullptr && other != nullptr && one->dtype == other->dtype &&
         one->dims == other->dims && one->numbers == other->numbers;
}

// s = Sigmoid(x); -(y Log(s) + (1 - y) Log(1 - s)), reduced or not.
bool match_bce_with_logits(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId s = l.node().outputs.front();
  if (l.uses().readers[s].size() != 2) return false;
  const OnnxValueId log = m.reader("Log", s, 0);
  if (!log.valid()) return false;
  const OnnxValueId rest = complement(l, m, s);
  if (!rest.valid()) return false;
  const OnnxValueId log_rest = m.next("Log", rest, 0);
  const OnnxValueId positive = m.next("Mul", log, 1);
  if (!log_rest.valid() || !positive.valid()) return false;
  const OnnxValueId y = m.node_of(positive).inputs[0];
  const OnnxValueId negative = m.next("Mul", log_rest, 1);
  if (!negative.valid()) return false;
  const OnnxValueId other = m.node_of(negative).inputs[0];
  const OnnxNodeId source = l.uses().producer[other];
  if (!source.valid() || l.file().nodes[source].op != "Sub" ||
      !is_same_target(l, l.file().nodes[source].inputs[1], y) ||
      l.uses().readers[other].size() != 1 ||
      !is_exported_one(l, l.file().nodes[source].inputs[0])) {
    return false;
  }
  m.take(other);
  const OnnxValueId sum = m.next("Add", positive, 0, negative);
  const OnnxValueId loss = sum.valid() ? m.next("Neg", sum, 0) : OnnxValueId();
  if (!loss.valid() || !l.tensor(y).valid()) return false;
  const OnnxValueId reduced = reduction_of(l, m, loss);
  const std::string reduction = reduced.valid() ? "mean" : "none";
  const TensorId result = l.builder().add("bce_with_logits_loss", {l.operand(0), l.tensor(y)},
                                          {{"reduction", reduction}});
  m.finish(reduced.valid() ? reduced : loss, result);
  return true;
}

// t (Log(t) - x), zero where t is not above zero, and a mean or sum: kl_div(x, t) is
// xlogy(t, t) - t x.
bool match_kl_div(OnnxLowering& l) {
  OnnxMatch m(l);
  const OnnxValueId target = l.node().inputs[0];
  const OnnxValueId difference = m.next("Sub", l.node().outputs.front(), 0);
  if (!difference.valid()) return false;
  const OnnxValueId input = m.node_of(difference).inputs[1];
  const OnnxValueId product = m.next("Mul", difference, 1, target);
  if (!product.valid() || l.uses().readers[product].size() != 2) return false;
  // The zeros of Where have the shape of the product.
  const OnnxValueId shape = m.reader("Shape", product, 0);
  if (!shape.valid() || !m.next("ConstantOfShape", shape, 0).valid()) return false;
  const OnnxValueId chosen = m.reader("Where", product, 1);
  const OnnxValueId mask = m.reader("Greater", target, 0);
  if (!chosen.valid() || !mask.valid() || m.node_of(chosen).inputs[0] != mask ||
      m.operand_number(mask, 1) != 0.0) {
    return false;
  }
  const OnnxValueId reduced = reduction_of(l, m, chosen);
  if (!reduced.valid() || !l.tensor(input).valid()) return false;
  ModelBuilder& b = l.builder();
  const TensorId t = l.operand(0);
  if (b.tensor(t).requires_grad) return false;
  // Autocast converts the arguments of the whole call.
  const Attributes argument{{"reads_converted", std::int64_t{1}}};
  const TensorId entropy = b.add("log", {t}, argument);  // xlogy of a target without a gradient
  const TensorId product_made = b.add("mul", {t, l.tensor(input)}, argument);
  const TensorId loss = b.add("sub", {entropy, product_made});
  const bool mean = m.node_of(reduced).op == "ReduceMean";
  m.finish(reduced,
           b.add(mean ? "mean" : "sum", {loss}, {{"ends_converted_call", std::int64_t{1}}}));
  return true;
}

constexpr OnnxPattern kLossPatterns[] = {{"Sigmoid", match_bce_with_logits}, {"Log", match_kl_div}};

}  // namespace onnx_loss_lowering

std::span<const OnnxPattern> onnx_loss_patterns() {
  return onnx_loss_lowering::kLossPatterns;
}

}  // namespace tidemark
