// Matrix products: F.linear, torch.matmul, addmm.
#include <algorithm>

#include <fmt/format.h>

#include "graph/import/onnx/onnx_match.hpp"

namespace tidemark {
namespace onnx_products {

// Whether a value is a parameter, was cut from one, as nn.MultiheadAttention over two inputs takes
// rows of its packed projection, or is computed from parameters alone, as nn.utils.weight_norm
// makes weights.
bool is_of_parameter(const OnnxLowering& l, OnnxValueId value, int depth = 0) {
  constexpr int kDeepest = 4;
  const OnnxNodeId source = l.uses().producer[value];
  if (!source.valid()) return l.is_initializer(value);
  const OnnxNode& node = l.file().nodes[source];
  if (node.op == "Slice") return l.is_initializer(node.inputs[0]);
  const bool computes = node.op == "Mul" || node.op == "Div" || node.op == "ReduceL2";
  return computes && depth < kDeepest &&
         std::all_of(node.inputs.begin(), node.inputs.end(), [&](OnnxValueId input) {
           return input.valid() && is_of_parameter(l, input, depth + 1);
         });
}

// Returns the weight behind Transpose(weight, [1, 0]); invalid when `value` is something else.
OnnxValueId transposed_weight(const OnnxLowering& l, OnnxValueId value) {
  const OnnxNodeId source = l.uses().producer[value];
  if (!source.valid()) return {};
  const OnnxNode& node = l.file().nodes[source];
  if (node.op != "Transpose" || !is_of_parameter(l, node.inputs[0])) return {};
  const std::vector<std::int64_t> permutation = node.list("perm");
  const bool swaps = permutation.empty() || permutation == std::vector<std::int64_t>{1, 0};
  return swaps ? node.inputs[0] : OnnxValueId();
}

// Multiplies with a vector: it is a matrix of one column or row, whose axis the result does not
// have.
TensorId vector_product(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  const TensorId left = l.operand(0);
  const TensorId right = l.operand(1);
  const bool row = b.shape(left).rank() == 1;
  const TensorId vector = row ? left : right;
  const TensorId column = b.view(vector, {b.shape(vector)[0], 1});
  TensorId other = row ? right : left;
  if (b.shape(other).rank() == 0) l.fail("a scalar has no rows to multiply");
  if (b.shape(other).rank() == 1) other = b.view(other, {1, b.shape(other)[0]});
  if (row && b.shape(right).rank() > 1) other = b.transpose(other, -2, -1);
  const TensorId product = b.matmul(other, column);
  Shape shape;
  const bool both = row && b.shape(right).rank() == 1;
  for (int axis = 0; axis + 1 < b.shape(product).rank() && !both; ++axis)
    shape.push_back(b.shape(product)[axis]);
  return b.view(product, shape);
}

// Returns the number that the exporter casts to the type of the other operand of a product, as it
// writes alpha and beta of torch.baddbmm; nothing for other products, such as those with a number
// in module code.
std::optional<double> cast_factor(OnnxLowering& l, const OnnxNode& product, OnnxValueId beside) {
  if (product.op != "Mul" || product.inputs.size() != 2) return std::nullopt;
  const OnnxValueId factor = product.inputs[product.inputs[0] == beside ? 1 : 0];
  const OnnxNodeId source = l.uses().producer[factor];
  if (!source.valid() || l.file().nodes[source].op != "Cast") return std::nullopt;
  return l.number(factor);
}

// torch.baddbmm(c, a, b): MatMul(a, b) times alpha plus c times beta.
bool lower_baddbmm(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  if (l.shape_of_operand(0).rank() != 3 || l.shape_of_operand(1).rank() != 3) return false;
  OnnxMatch m(l);
  const OnnxValueId product = l.node().outputs.front();
  const OnnxValueId scaled = m.next("Mul", product, 0);
  if (!scaled.valid()) return false;
  const auto alpha = cast_factor(l, m.node_of(scaled), product);
  const OnnxValueId sum = alpha ? m.next("Add", scaled, 0) : OnnxValueId();
  if (!sum.valid()) return false;
  const OnnxValueId addend = m.node_of(sum).inputs[1];
  const OnnxNodeId source = l.uses().producer[addend];
  if (!source.valid() || !l.uses().only_reader(addend).valid()) return false;
  const OnnxNode& scaling = l.file().nodes[source];
  if (scaling.inputs.empty() || !cast_factor(l, scaling, scaling.inputs[0])) return false;
  const TensorId added = l.tensor(scaling.inputs[0]);
  if (!added.valid()) return false;
  m.take(addend);
  m.finish(sum, b.add("baddbmm", {added, l.operand(0), l.operand(1)}, {{"alpha", *alpha}}));
  return true;
}

// F.linear on three or more axes: MatMul with the transposed weight, then Add with the bias as the
// first operand. The sum makes no second tensor.
void lower_matmul(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  if (lower_baddbmm(l)) return;
  const OnnxValueId right = l.node().inputs[1];
  const OnnxValueId behind = transposed_weight(l, right);
  const OnnxValueId weight_value = behind.valid() ? behind : right;
  const bool has_weight = behind.valid() || l.is_initializer(right);
  const TensorId weight = has_weight ? l.tensor(weight_value) : TensorId();
  if (l.shape_of_operand(0).rank() < 2 || l.shape_of_operand(1).rank() < 2) {
    return l.set(vector_product(l));
  }
  if (!weight.valid() || b.shape(weight).rank() != 2) {
    return l.set(b.matmul(l.operand(0), l.operand(1)));
  }
  OnnxValueId result = l.node().outputs.front();
  TensorId bias;
  const OnnxNodeId reader = l.uses().only_reader(result);
  if (reader.valid() && l.file().nodes[reader].op == "Add") {
    const OnnxNode& sum = l.file().nodes[reader];
    const bool added = sum.inputs[1] == result && is_of_parameter(l, sum.inputs[0]);
    const TensorId first = added ? l.tensor(sum.inputs[0]) : TensorId();
    if (first.valid() && (behind.valid() || b.tensor(first).requires_grad) &&
        b.shape(first).rank() == 1) {
      bias = first;
      result = sum.outputs.front();
      l.mark_done(reader);
    }
  }
  TensorId product;
  if (behind.valid()) {
    product = b.linear_with(l.operand(0), weight, bias);
  } else if (bias.valid()) {
    // The exporter transposed the weight while it folded constants.
    product =
        b.add("linear", {l.operand(0), weight, bias}, {{"transposed_weight", std::int64_t{1}}});
  } else {
    product = b.matmul(l.operand(0), weight);
  }
  l.set_value(result, product);
}

void lower_gemm(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  TensorId x = l.operand(0);
  TensorId weight = l.operand(1);
  const TensorId added = l.has(2) ? l.operand(2) : TensorId();
  if (l.node().integer("transA") != 0) x = b.transpose(x, 0, 1);
  const bool transposed = l.node().integer("transB") != 0;
  const bool is_bias = !added.valid() || b.shape(added).rank() == 1;
  if (is_bias) {
    if (transposed) return l.set(b.linear_with(x, weight, added));
    return l.set(b.add("linear", {x, weight, added}, {{"transposed_weight", std::int64_t{1}}}));
  }
  if (transposed) weight = b.transpose(weight, 0, 1);
  l.set(b.add("addmm", {added, x, weight}));
}

constexpr OnnxOperator kOperators[] = {{"MatMul", lower_matmul}, {"Gemm", lower_gemm}};

}  // namespace onnx_products

std::span<const OnnxOperator> onnx_product_operators() {
  return onnx_products::kOperators;
}

}  // namespace tidemark
