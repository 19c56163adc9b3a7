// Matrix products: F.linear, torch.matmul, addmm.
#include <fmt/format.h>

#include "graph/import/onnx/onnx_lowering.hpp"

namespace tidemark {
namespace {

// The parameter behind Transpose(weight, [1, 0]); invalid when `value` is something else.
OnnxValueId transposed_parameter(const OnnxLowering& l, OnnxValueId value) {
  const OnnxNodeId source = l.uses().producer[value];
  if (!source.valid()) return {};
  const OnnxNode& node = l.file().nodes[source];
  if (node.op != "Transpose" || !l.is_initializer(node.inputs[0])) return {};
  const std::vector<std::int64_t> permutation = node.list("perm");
  const bool swaps = permutation.empty() || permutation == std::vector<std::int64_t>{1, 0};
  return swaps ? node.inputs[0] : OnnxValueId();
}

// F.linear on three or more axes: MatMul with the transposed weight, then Add with the bias as the
// first operand. The sum makes no second tensor.
void lower_matmul(OnnxLowering& l) {
  ModelBuilder& b = l.builder();
  const OnnxValueId right = l.node().inputs[1];
  const OnnxValueId behind = transposed_parameter(l, right);
  const OnnxValueId weight_value = behind.valid() ? behind : right;
  const TensorId weight = l.is_initializer(weight_value) ? l.tensor(weight_value) : TensorId();
  if (!weight.valid() || b.shape(weight).rank() != 2) {
    if (l.shape_of_operand(0).rank() < 2 || l.shape_of_operand(1).rank() < 2) {
      l.fail("products of vectors are not simulated");
    }
    return l.set(b.matmul(l.operand(0), l.operand(1)));
  }
  OnnxValueId result = l.node().outputs.front();
  TensorId bias;
  const OnnxNodeId reader = l.uses().only_reader(result);
  if (reader.valid() && l.file().nodes[reader].op == "Add") {
    const OnnxNode& sum = l.file().nodes[reader];
    if (sum.inputs[1] == result && l.is_parameter(sum.inputs[0]) &&
        b.shape(l.tensor(sum.inputs[0])).rank() == 1) {
      bias = l.tensor(sum.inputs[0]);
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

}  // namespace

std::span<const OnnxOperator> onnx_product_operators() {
  return kOperators;
}

}  // namespace tidemark
