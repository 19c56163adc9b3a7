// Linear layers whose frozen weight is kept as codes: bitsandbytes' 4-bit and LLM.int8 layers, and
// torchao's NF4. Autograd keeps the codes, which are a part of the model.
#include "graph/operators/adapters/quantised_linear.hpp"

#include <optional>

#include "graph/operators/adapters/quantised_formats.hpp"
#include "graph/operators/forward_builder.hpp"
#include "graph/operators/kernels.hpp"
#include "graph/operators/products/linear_product.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace quantised_linear_family_detail {

constexpr std::size_t kFirstState = 3;  // scales and tables
constexpr std::int64_t kFewRows = 4;    // up to so many rows are multiplied with the codes

const QuantisedFormat& format_of(const NodeView& node) {
  return *find_quantised_format(node.attributes().text("format"),
                                node.attributes().text("library"));
}

// Until 0.43 bitsandbytes quantised a weight in fp16 (Params4bit.cuda, and Lightning Fabric with
// it), so that it is dequantised in fp16 and converted, and MatMul4Bit kept its input until 0.43.2
// (pull request 1270).
bool is_of_0_42(const NodeView& node) {
  return node.attributes().text("library") == "bitsandbytes-0.42";
}

std::vector<Tensor> parts_of(const NodeView& node) {
  std::vector<Tensor> parts{node.input(kLinearWeight)};
  for (std::size_t i = kFirstState; i < node.input_count(); ++i)
    parts.push_back(node.input(i));
  return parts;
}

// Returns the kernel that makes the weight from its codes, in the type of the product.
BackwardKernel dequantise(const NodeView& node, const Tensor& weight) {
  const QuantisedFormat& format = format_of(node);
  const Elements elements = weight.elements();
  BackwardKernel kernel{.name = "dequantise",
                        .part = OperatorPart::kDequantise,
                        .reads = parts_of(node),
                        .creates = {weight}};
  kernel.work = {.op_class = OperatorClass::kElementwise,
                 .dtype = weight.dtype,
                 .flops = flops_per(1, weight),
                 .written = weight.bytes()};
  for (const Tensor& part : kernel.reads)
    kernel.work.read += part.bytes();
  const std::int64_t block = node.attributes().integer("block", 64);
  if (format.library == QuantisedBy::kTorchao) {
    // Written in Python, through int64 indices: 14.03 bytes per element at its peak, measured.
    kernel.temporary = Bytes(12 * elements.count + elements.count / 32);
  } else if (format.nested) {
    kernel.temporary = bytes_of(DType::kFloat32, Elements(elements.count / block));
  }
  if (is_of_0_42(node) && weight.dtype != DType::kFloat16) {
    const Bytes half = bytes_of(DType::kFloat16, elements);
    kernel.temporary += half;
    kernel.work.read += half;
    kernel.work.written += half;
  }
  return kernel;
}

void emit_4bit(ForwardBuilder& f) {
  const NodeView& node = f.node();
  const auto [m, n, k] = linear_extent(node);
  const Tensor& x = node.input(kLinearX);
  BackwardKernel product{.name = "quantised_linear",
                         .reads = {x},
                         .creates = {node.output()},
                         .work = matmul_work(x.dtype, m, n, k, 1)};
  if (node.has_input(kLinearBias)) product.reads.push_back(node.input(kLinearBias));
  const bool by_codes = m <= kFewRows && format_of(node).library == QuantisedBy::kBitsandbytes;
  if (by_codes) {
    product.work.read -= bytes_of(x.dtype, Elements(n * k));
    for (const Tensor& part : parts_of(node)) {
      product.reads.push_back(part);
      product.work.read += part.bytes();
    }
  } else {
    const Tensor weight = f.create("dequantised", node.input(kLinearWeight).shape, x.dtype);
    f.launch(dequantise(node, weight));
    product.reads.push_back(weight);
  }
  f.launch(product);
}

// Returns the input of the columns that pass LLM.int8's threshold in some row; none: nothing
// passes. Only the values tell which do: the number is an option.
std::optional<Tensor> outliers_of(const NodeView& node) {
  const std::int64_t columns = node.attributes().integer("outlier_columns", 0);
  if (columns == 0) return std::nullopt;
  const Tensor& x = node.input(kLinearX);
  Shape shape = x.shape;
  shape[-1] = columns;
  return Tensor{.dtype = x.dtype, .shape = shape};
}

// Adds the product of the outliers in the type of the input (MatMul8bitLt of bitsandbytes,
// int8_mixed_scaled_mm): the host waits for the list of columns, whose weights are dequantised.
void add_outliers(ForwardBuilder& f, const Tensor& of_columns, const Tensor& result) {
  const NodeView& node = f.node();
  const auto [m, n, k] = linear_extent(node);
  const Tensor& x = node.input(kLinearX);
  const std::int64_t columns = of_columns.shape[-1];
  const Tensor kept = node.needs_gradient(kLinearX)
                          ? f.saved("outlier_input")
                          : f.create("outlier_input", of_columns.shape, x.dtype);
  BackwardKernel take{.name = "take_outliers",
                      .reads = {x},
                      .creates = {kept},
                      .work = work_on(OperatorClass::kElementwise, Flops(), {kept}, {kept})};
  take.blocks_host = true;
  f.launch(take);
  const Tensor weight = f.create("outlier_weight", {columns, n}, x.dtype);
  f.launch(
      {.name = "dequantise_outliers",
       .reads = {node.input(kLinearWeight), node.input(kFirstState)},
       .creates = {weight},
       .work = work_on(OperatorClass::kElementwise, flops_per(1, weight), {weight}, {weight})});
  BackwardKernel product{.name = "quantised_linear.outliers",
                         .reads = {kept, weight},
                         .mutates = {result},
                         .work = matmul_work(x.dtype, m, n, columns, 1)};
  product.work.flops = Flops();        // the product of codes counts all columns
  product.temporary = result.bytes();  // the sum is a tensor of its own before it takes its place
  f.launch(product);
}

// LLM.int8: rows of the input are scaled to int8, multiplied into int32, and scaled back.
void emit_int8(ForwardBuilder& f) {
  const NodeView& node = f.node();
  const auto [m, n, k] = linear_extent(node);
  const Tensor& x = node.input(kLinearX);
  const Tensor codes = f.create("CA", x.shape, DType::kInt8);
  const Tensor scales = f.create("SCA", {m}, DType::kFloat32);
  BackwardKernel rows{
      .name = "quantise_rows",
      .reads = {x},
      .creates = {codes, scales},
      .work = work_on(OperatorClass::kElementwise, flops_per(3, x), {x}, {codes, scales})};
  // The columns that pass the threshold are looked for, and anything but fp16 is converted first.
  rows.temporary = bytes_of(DType::kBool, x.elements());
  if (x.dtype != DType::kFloat16) rows.temporary += bytes_of(DType::kFloat16, x.elements());
  f.launch(rows);
  Shape shape = x.shape;
  shape[-1] = n;
  const Tensor sums = f.create("int32_result", shape, DType::kInt32);
  Work product = matmul_work(DType::kFloat16, m, n, k, 1);
  product.read = codes.bytes() + node.input(kLinearWeight).bytes();
  product.written = sums.bytes();
  f.launch({.name = "quantised_linear",
            .reads = {codes, node.input(kLinearWeight)},
            .creates = {sums},
            .work = product});
  BackwardKernel scale{
      .name = "scale_result",
      .reads = {sums, scales, node.input(kFirstState)},
      .creates = {node.output()},
      .work = work_on(OperatorClass::kElementwise, flops_per(2, sums), {sums}, {node.output()})};
  if (node.has_input(kLinearBias)) scale.reads.push_back(node.input(kLinearBias));
  if (x.dtype != DType::kFloat16) scale.temporary = bytes_of(DType::kFloat16, sums.elements());
  f.launch(scale);
  if (const std::optional<Tensor> outliers = outliers_of(node))
    add_outliers(f, *outliers, node.output());
}

void emit(ForwardBuilder& f) {
  if (format_of(f.node()).codes == DType::kInt8) return emit_int8(f);
  emit_4bit(f);
}

// The product alone, without what dequantises before it.
ForwardKernel forward(const NodeView& node) {
  const auto [m, n, k] = linear_extent(node);
  return {.work = matmul_work(node.input(kLinearX).dtype, m, n, k, 1)};
}

// MatMul4Bit keeps the codes alone, but in 0.42; MatMul8bitLt keeps its input as well.
void save(SavedSet& saved) {
  const NodeView& node = saved.node();
  if (!node.needs_gradient(kLinearX)) return;
  if (is_of_0_42(node)) {
    saved.context(kLinearX);  // ctx.tensors
  } else if (format_of(node).codes == DType::kInt8) {
    saved.input(kLinearX);
    if (const std::optional<Tensor> outliers = outliers_of(node))
      saved.extra("outlier_input", outliers->shape, outliers->dtype);
  }
  saved.input(kLinearWeight);
}

void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const auto [m, n, k] = linear_extent(node);
  const Tensor gradient = reshaped(b, b.output_gradient(), {m, n});
  launch_bias_gradient(b, "quantised_linear.bias_gradient", gradient);
  if (!b.needs_gradient(kLinearX)) return;
  const Tensor& x = node.input(kLinearX);
  const Tensor weight = b.create("dequantised", node.input(kLinearWeight).shape, gradient.dtype);
  b.launch(dequantise(node, weight));
  const Tensor result = b.create("input_gradient", x.shape, x.dtype);
  b.launch({.name = "quantised_linear.input_gradient",
            .part = OperatorPart::kInputGradient,
            .reads = {gradient, weight},
            .creates = {result},
            .work = matmul_work(x.dtype, m, k, n, 1)});
  b.set_input_gradient(kLinearX, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "quantised_linear",
     .summary = "x times a weight that is kept as codes and dequantised at each use",
     .infer = infer_linear,
     .forward = forward,
     .save = save,
     .backward = backward,
     .emit = emit,
     .opaque = true},
};

}  // namespace quantised_linear_family_detail

const OperatorFamily& quantised_linear_family() {
  return quantised_linear_family_detail::kFamilies[0];
}

std::span<const OperatorFamily> quantised_linear_families() {
  return quantised_linear_family_detail::kFamilies;
}

}  // namespace tidemark
