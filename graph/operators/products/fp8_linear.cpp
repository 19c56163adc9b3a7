#include "graph/operators/products/fp8_linear.hpp"

#include <utility>

#include <fmt/format.h>

#include "graph/operators/forward_builder.hpp"
#include "graph/operators/kernels.hpp"

namespace tidemark {
namespace fp8_linear_detail {
namespace {

constexpr std::size_t kX = 0;
constexpr std::size_t kWeight = 1;  // [n, k]; [k, n] with transposed_weight
constexpr std::size_t kBias = 2;

struct Extent {
  std::int64_t m, n, k;
};

Extent extent_of(const NodeView& node) {
  const Tensor& x = node.input(kX);
  const std::int64_t k = x.shape[-1];
  return {.m = x.elements().count / k, .n = node.output().shape[-1], .k = k};
}

void infer(Inference& inference) {
  const Tensor& x = inference.input(kX);
  const Tensor& weight = inference.input(kWeight);
  const bool transposed = inference.attributes().flag("transposed_weight");
  const std::int64_t in_features = weight.shape[transposed ? 0 : 1];
  const std::int64_t out_features = weight.shape[transposed ? 1 : 0];
  inference.require(x.shape[-1] == in_features, "the input does not have the weight's features");
  inference.require(in_features % 16 == 0 && out_features % 16 == 0,
                    fmt::format("fp8 products take features that are multiples of 16, not {} x {}",
                                out_features, in_features));
  Shape result = x.shape;
  result[-1] = out_features;
  inference.create(result, x.dtype);
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
  return copy_bytes(node, node.input(kX).elements().count, false);
}
Bytes weight_copies(const NodeView& node) {
  const std::int64_t copies = node.attributes().integer("weight_copies", 2);
  return copies * copy_bytes(node, node.input(kWeight).elements().count, true);
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
  if (node.needs_gradient(kWeight)) {
    if (high) {
      saved.input(kX);
    } else {
      saved.extra("input_fp8", bytes_as_shape(input_copy(node)), DType::kInt8);
    }
  }
  if (node.needs_gradient(kX)) {
    if (high) {
      saved.input(kWeight);
    } else {
      saved.extra("weight_fp8", bytes_as_shape(weight_copies(node)), DType::kInt8);
    }
  }
}

void emit(ForwardBuilder& b) {
  const NodeView& node = b.node();
  const auto [m, n, k] = extent_of(node);
  const Tensor& x = node.input(kX);
  const Tensor& weight = node.input(kWeight);
  const bool trains = node.output().requires_grad && !keeps_operands(node);
  const bool keeps_x = trains && node.needs_gradient(kWeight);
  const bool keeps_weight = trains && node.needs_gradient(kX);

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
  if (node.has_input(kBias)) kernel.reads.push_back(node.input(kBias));
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

void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const auto [m, n, k] = extent_of(node);
  const Tensor gradient = reshaped(b, b.output_gradient(), {m, n});
  const Tensor& x = node.input(kX);
  const Tensor& weight = node.input(kWeight);
  const bool high = keeps_operands(node);
  if (b.needs_gradient(kBias)) {
    // The kernel of the cast sums the bias's gradient, too.
    const Tensor bias = b.create_like("bias_gradient", node.input(kBias));
    b.launch(
        {.name = "fp8_linear.bias_gradient",
         .part = OperatorPart::kBiasGradient,
         .reads = {gradient},
         .creates = {bias},
         .work = work_on(OperatorClass::kReduction, flops_per(1, gradient), {gradient}, {bias})});
    b.set_input_gradient(kBias, bias);
  }
  if (b.needs_gradient(kX)) {
    const Tensor rows = quantised(b, "fp8_linear.quantise_gradient", gradient, false);
    const Tensor columns =
        high ? quantised(b, "fp8_linear.quantise_weight", weight, true) : b.saved("weight_fp8");
    const Tensor result = b.create("input_gradient", x.shape, x.dtype);
    Work work = matmul_work(DType::kFloat8, m, k, n, 1);
    work.written = result.bytes();
    b.launch({.name = "fp8_linear.input_gradient",
              .part = OperatorPart::kInputGradient,
              .reads = {rows, columns},
              .creates = {result},
              .work = work});
    b.set_input_gradient(kX, result);
  }
  if (b.needs_gradient(kWeight)) {
    const Tensor columns = quantised(b, "fp8_linear.transpose_gradient", gradient, false);
    const Tensor rows =
        high ? quantised(b, "fp8_linear.quantise_input", x, false) : b.saved("input_fp8");
    const Tensor result = b.create("weight_gradient", weight.shape, weight.dtype);
    Work work = matmul_work(DType::kFloat8, n, k, m, 1);
    work.written = result.bytes();
    b.launch({.name = "fp8_linear.weight_gradient",
              .part = OperatorPart::kWeightGradient,
              .reads = {columns, rows},
              .creates = {result},
              .work = work});
    b.set_input_gradient(kWeight, result);
  }
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
