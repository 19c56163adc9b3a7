// Matrix products: F.linear, torch.matmul, addmm.
#include <fmt/format.h>

#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {
namespace onnx_products {

// Whether a value is a parameter or was cut from one: nn.MultiheadAttention over two inputs takes
// rows of its packed projection.
bool is_of_parameter(const OnnxLowering& l, OnnxValueId value) {
  const OnnxNodeId source = l.uses().producer[value];
  if (!source.valid()) return l.is_initializer(value);
  const OnnxNode& node = l.file().nodes[source];
  return node.op == "Slice" && l.is_initializer(node.inputs[0]);
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

// F.linear on three or more axes: MatMul with the transposed weight, then Add with the bias as the
// first operand. The sum makes no second tensor.
void lower_matmul(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
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
    if (first.valid() && b.tensor(first).requires_grad && b.shape(first).rank() == 1) {
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
