#include "graph/operators/liger/liger_kernels.hpp"

#include <utility>

#include "graph/operators/kernels.hpp"

namespace tidemark {
namespace liger_kernels_detail {
namespace {

constexpr std::size_t kX = 0;

// --- RMSNorm ---

constexpr std::size_t kWeight = 1;
constexpr std::string_view kRowsOfInput = "input_rows";

void infer_rms_norm(Inference& inference) {
  const Tensor& x = inference.input(kX);
  inference.require(x.shape.rank() >= 1 && inference.input(kWeight).shape == Shape{x.shape[-1]},
                    "needs a weight with one element for each feature");
  inference.create(x.shape, x.dtype);
}

// The kernels take rows: a strided operand is copied first (ensure_contiguous).
Bytes copy_of(const Tensor& operand) {
  return operand.is_contiguous() ? Bytes(0) : operand.bytes();
}

ForwardKernel forward_rms_norm(const NodeView& node) {
  ForwardKernel kernel{.work = node.elementwise_work(OperatorClass::kNormalization, 8)};
  if (!node.output().requires_grad) kernel.workspace = copy_of(node.input(kX));
  return kernel;
}

void save_rms_norm(SavedSet& saved) {
  const Tensor& x = saved.node().input(kX);
  if (x.is_contiguous()) {
    saved.input(kX);
  } else {
    saved.extra(kRowsOfInput, x.shape, x.dtype);
  }
  saved.input(kWeight);
  saved.extra("rstd", {x.elements().count / x.shape[-1]}, DType::kFloat32);
}

// Each multiprocessor sums its rows' part of the weight's gradient in a row of fp32; their sum is
// cast to the weight's type. The kernel makes both gradients, whoever needs them.
void backward_rms_norm(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor& weight = node.input(kWeight);
  const Tensor x = node.input(kX).is_contiguous() ? node.input(kX) : b.saved(kRowsOfInput);
  const Tensor gradient = b.contiguous(b.output_gradient());
  const std::int64_t rows = node.attributes().integer("multiprocessors", 1);
  const Bytes row = bytes_of(DType::kFloat32, weight.elements());
  BackwardBuilder::Kernel kernel{.name = "liger_rms_norm.backward",
                                 .reads = {x, weight, b.saved("rstd")}};
  kernel.work = work_on(OperatorClass::kNormalization, flops_per(14, x), {gradient, x}, {x});
  kernel.work.written += row * rows;
  kernel.work.launches = 2;
  const Tensor of_weight = b.create_like("weight_gradient", weight);
  kernel.creates = {of_weight};
  kernel.temporary = row * rows + (weight.dtype == DType::kFloat32 ? Bytes(0) : row);
  Tensor of_input = gradient;
  if (node.attributes().flag("keeps_gradient")) {
    of_input = b.create_like("input_gradient", x);
    kernel.reads.push_back(gradient);
    kernel.creates.push_back(of_input);
  } else {
    kernel.mutates = {gradient};
  }
  b.launch(kernel);
  if (b.needs_gradient(kX)) b.set_input_gradient(kX, of_input);
  if (b.needs_gradient(kWeight)) b.set_input_gradient(kWeight, of_weight);
}

// --- gated activations ---

constexpr std::size_t kGate = 0;
constexpr std::size_t kUp = 1;
constexpr std::pair<std::size_t, std::string_view> kOperands[] = {{kGate, "gate"}, {kUp, "up"}};

void infer_glu(Inference& inference) {
  const Tensor& gate = inference.input(kGate);
  const Tensor& up = inference.input(kUp);
  inference.require(gate.shape == up.shape && gate.dtype == up.dtype,
                    "needs gate and up of one shape and type");
  inference.create(gate.shape, gate.dtype);
}

ForwardKernel forward_glu(const NodeView& node) {
  ForwardKernel kernel{.work = node.elementwise_work(OperatorClass::kElementwise, 8)};
  if (!node.output().requires_grad)
    kernel.workspace = copy_of(node.input(kGate)) + copy_of(node.input(kUp));
  return kernel;
}

void save_glu(SavedSet& saved) {
  for (const auto& [index, name] : kOperands) {
    const Tensor& operand = saved.node().input(index);
    if (operand.is_contiguous()) {
      saved.input(index);
    } else {
      saved.extra(name, operand.shape, operand.dtype);
    }
  }
}

void backward_glu(BackwardBuilder& b) {
  const Tensor gradient = b.contiguous(b.output_gradient());
  std::vector<Tensor> kept;
  for (const auto& [index, name] : kOperands) {
    const Tensor& operand = b.node().input(index);
    kept.push_back(operand.is_contiguous() ? operand : b.saved(name));
  }
  b.launch({.name = "liger_glu.backward",
            .reads = {gradient},
            .mutates = kept,
            .work = work_on(OperatorClass::kElementwise, flops_per(14, gradient),
                            {gradient, kept[kGate], kept[kUp]}, {kept[kGate], kept[kUp]})});
  for (const auto& [index, name] : kOperands) {
    if (b.needs_gradient(index)) b.set_input_gradient(index, kept[index]);
  }
}

// --- rotary embedding ---

constexpr std::size_t kCos = 1;
constexpr std::size_t kSin = 2;

// Returns the tensor with tokens before heads, as the kernel takes it, and the other way round.
Tensor swapped(Tensor x) {
  std::swap(x.shape[1], x.shape[2]);
  std::swap(x.strides[1], x.strides[2]);
  return x;
}

void infer_rope(Inference& inference) {
  const Tensor& x = inference.input(kX);
  inference.require(x.shape.rank() == 4 && x.shape[-1] % 2 == 0,
                    "needs the axes batch, heads, length and an even width");
  for (const std::size_t i : {kCos, kSin})
    inference.require(!inference.input(i).requires_grad, "cos and sin are constants");
  if (swapped(x).is_contiguous()) {
    inference.in_place(kX);
    return;
  }
  Tensor rows = swapped(x);
  rows.strides = contiguous_strides(rows.shape);
  inference.create(x.shape, x.dtype, swapped(rows).strides);
}

ForwardKernel forward_rope(const NodeView& node) {
  Work work = node.elementwise_work(OperatorClass::kElementwise, 4);
  if (!node.is_in_place()) {
    work.read += node.output().bytes();
    work.written += node.output().bytes();
    ++work.launches;
  }
  return {.work = work};
}

void save_rope(SavedSet& saved) {
  saved.input(kCos);
  saved.input(kSin);
}

void backward_rope(BackwardBuilder& b) {
  const Tensor rows = b.contiguous(swapped(b.output_gradient()));
  const Tensor& cos = b.node().input(kCos);
  const Tensor& sin = b.node().input(kSin);
  b.launch(
      {.name = "liger_rope.backward",
       .reads = {cos, sin},
       .mutates = {rows},
       .work = work_on(OperatorClass::kElementwise, flops_per(4, rows), {rows, cos, sin}, {rows})});
  b.set_input_gradient(kX, swapped(rows));
}

constexpr OperatorFamily kRmsNorm{
    .name = "liger_rms_norm",
    .summary = "Liger's RMSNorm; keeps the input and rstd, its gradient replaces the incoming one",
    .infer = infer_rms_norm,
    .forward = forward_rms_norm,
    .save = save_rms_norm,
    .backward = backward_rms_norm,
    .opaque = true};
constexpr OperatorFamily kGlu{
    .name = "liger_glu",
    .summary = "Liger's act(gate) * up; keeps both, which their gradients replace",
    .infer = infer_glu,
    .forward = forward_glu,
    .save = save_glu,
    .backward = backward_glu,
    .opaque = true};
constexpr OperatorFamily kRope{.name = "liger_rope",
                               .summary = "Liger's rotary embedding in place; keeps cos and sin",
                               .infer = infer_rope,
                               .forward = forward_rope,
                               .save = save_rope,
                               .backward = backward_rope,
                               .opaque = true};

}  // namespace
}  // namespace liger_kernels_detail

const OperatorFamily& liger_rms_norm_family() {
  return liger_kernels_detail::kRmsNorm;
}
const OperatorFamily& liger_glu_family() {
  return liger_kernels_detail::kGlu;
}
const OperatorFamily& liger_rope_family() {
  return liger_kernels_detail::kRope;
}

}  // namespace tidemark
