#include "graph/operators/products/fp8_linear.hpp"

#include <string_view>

#include <fmt/format.h>

#include "graph/operators/forward_builder.hpp"
#include "graph/operators/kernels.hpp"
#include "graph/operators/products/linear_product.hpp"

namespace tidemark {
namespace fp8_linear_detail {
namespace {

constexpr std::int64_t kMultiple = 16;     // of both features, that the tensor cores ask for
constexpr std::int64_t kWeightCopies = 2;  // forward's own and the transposed one for backward

void infer(Inference& inference) {
  infer_linear(inference);
  const Shape& weight = inference.input(kLinearWeight).shape;
  inference.require(weight[0] % kMultiple == 0 && weight[1] % kMultiple == 0, [&] {
    return fmt::format("fp8 products take features that are multiples of {}, not {}", kMultiple,
                       to_string(weight));
  });
}

bool keeps_operands(const NodeView& node) {
  return node.attributes().flag("high_precision");
}

// Bytes of one fp8 copy with its scales.
Bytes copy_bytes(const NodeView& node, std::int64_t elements, bool weight) {
  const std::int64_t block =
      node.attributes().integer(weight ? "weight_scale_block" : "scale_block", 0);
  const std::int64_t scale = node.attributes().integer("scale_bytes", 0);
  return Bytes(elements + (block > 0 ? (elements + block - 1) / block * scale : 0));
}

Shape bytes_as_shape(Bytes bytes) {
  return {bytes.count};
}

Bytes input_copy(const NodeView& node) {
  return copy_bytes(node, node.input(kLinearX).elements().count, false);
}
Bytes weight_copies(const NodeView& node) {
  return kWeightCopies * copy_bytes(node, node.input(kLinearWeight).elements().count, true);
}

// A cast reads its operand once, or twice where the scale comes from the operand itself.
Work cast_work(const NodeView& node, const Tensor& from, Bytes written) {
  const bool twice = node.attributes().flag("reads_twice");
  Work work{.op_class = OperatorClass::kElementwise, .dtype = from.dtype};
  work.flops = flops_per(2, from);
  work.read = twice ? 2 * from.bytes() : from.bytes();
  work.written = written;
  work.launches = twice ? 2 : 1;
  return work;
}

void save(SavedSet& saved) {
  const NodeView& node = saved.node();
  const bool high = keeps_operands(node);
  if (node.needs_gradient(kLinearWeight)) {
    if (high) {
      saved.input(kLinearX);
    } else {
      saved.extra("input_fp8", bytes_as_shape(input_copy(node)), DType::kInt8);
    }
  }
  if (node.needs_gradient(kLinearX)) {
    if (high) {
      saved.input(kLinearWeight);
    } else {
      saved.extra("weight_fp8", bytes_as_shape(weight_copies(node)), DType::kInt8);
    }
  }
}

void emit(ForwardBuilder& b) {
  const NodeView& node = b.node();
  const auto [m, n, k] = linear_extent(node);
  const Tensor& x = node.input(kLinearX);
  const Tensor& weight = node.input(kLinearWeight);
  const bool trains = node.output().requires_grad && !keeps_operands(node);
  const bool keeps_x = trains && node.needs_gradient(kLinearWeight);
  const bool keeps_weight = trains && node.needs_gradient(kLinearX);

  const Tensor rows = b.create("input_rowwise", bytes_as_shape(input_copy(node)), DType::kInt8);
  BackwardKernel quantise{.name = "fp8_linear.quantise_input", .reads = {x}, .creates = {rows}};
  if (keeps_x) quantise.creates.push_back(b.saved("input_fp8"));
  quantise.work = cast_work(node, x, (keeps_x ? 2 : 1) * input_copy(node));
  b.launch(quantise);

  const Tensor columns =
      keeps_weight
          ? b.saved("weight_fp8")
          : b.create("weight_rowwise",
                     bytes_as_shape(copy_bytes(node, weight.elements().count, true)), DType::kInt8);
  b.launch({.name = "fp8_linear.quantise_weight",
            .reads = {weight},
            .creates = {columns},
            .work = cast_work(node, weight, columns.bytes())});

  Work product = matmul_work(DType::kFloat8, m, n, k, 1);
  product.written = node.output().bytes();
  BackwardKernel kernel{
      .name = "fp8_linear", .reads = {rows, columns}, .creates = {node.output()}, .work = product};
  if (node.has_input(kLinearBias)) kernel.reads.push_back(node.input(kLinearBias));
  b.launch(kernel);
}

// Makes an fp8 copy in backward.
Tensor quantised(BackwardBuilder& b, std::string_view name, const Tensor& from, bool weight) {
  const Bytes bytes = copy_bytes(b.node(), from.elements().count, weight);
  const Tensor copy = b.create("fp8_copy", bytes_as_shape(bytes), DType::kInt8);
  b.launch(
      {.name = name, .reads = {from}, .creates = {copy}, .work = cast_work(b.node(), from, bytes)});
  return copy;
}

// Returns the operand that forward saved as an fp8 copy, or a copy of the operand itself.
Tensor kept_copy(BackwardBuilder& b, std::size_t operand) {
  const bool weight = operand == kLinearWeight;
  if (!keeps_operands(b.node())) return b.saved(weight ? "weight_fp8" : "input_fp8");
  return quantised(b, weight ? "fp8_linear.quantise_weight" : "fp8_linear.quantise_input",
                   b.node().input(operand), weight);
}

// One product of backward: a copy of the gradient times the kept copy of the other operand.
struct GradientProduct {
  std::size_t of;     // the operand whose gradient it is
  std::size_t other;  // the operand it is multiplied with
  OperatorPart part;
  std::string_view result;
  std::string_view name;
  std::string_view copy;  // the cast of the gradient
};

constexpr GradientProduct kProducts[] = {
    {kLinearX, kLinearWeight, OperatorPart::kInputGradient, "input_gradient",
     "fp8_linear.input_gradient", "fp8_linear.quantise_gradient"},
    {kLinearWeight, kLinearX, OperatorPart::kWeightGradient, "weight_gradient",
     "fp8_linear.weight_gradient", "fp8_linear.transpose_gradient"},
};

void launch_product(BackwardBuilder& b, const Tensor& gradient, const GradientProduct& product) {
  if (!b.needs_gradient(product.of)) return;
  const auto [m, n, k] = linear_extent(b.node());
  const Tensor copy = quantised(b, product.copy, gradient, false);
  const Tensor other = kept_copy(b, product.other);
  const Tensor& operand = b.node().input(product.of);
  const Tensor result = b.create(product.result, operand.shape, operand.dtype);
  Work work = product.of == kLinearX ? matmul_work(DType::kFloat8, m, k, n, 1)
                                     : matmul_work(DType::kFloat8, n, k, m, 1);
  work.written = result.bytes();
  b.launch({.name = product.name,
            .part = product.part,
            .reads = {copy, other},
            .creates = {result},
            .work = work});
  b.set_input_gradient(product.of, result);
}

// The kernel of the cast sums the bias's gradient, too.
void backward(BackwardBuilder& b) {
  const auto [m, n, k] = linear_extent(b.node());
  const Tensor gradient = reshaped(b, b.output_gradient(), {m, n});
  launch_bias_gradient(b, "fp8_linear.bias_gradient", gradient);
  for (const GradientProduct& product : kProducts)
    launch_product(b, gradient, product);
}

constexpr OperatorFamily kFp8Linear{.name = "fp8_linear",
                                    .summary = "a linear layer whose products run in fp8",
                                    .infer = infer,
                                    .forward = nullptr,
                                    .save = save,
                                    .backward = backward,
                                    .emit = emit};

}  // namespace
}  // namespace fp8_linear_detail

const OperatorFamily& fp8_linear_family() {
  return fp8_linear_detail::kFp8Linear;
}

}  // namespace tidemark
