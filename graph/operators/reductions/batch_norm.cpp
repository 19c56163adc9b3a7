// batch_norm in training mode, and in evaluation by its running statistics. The running statistics
// are updated by a node of their own: it writes persistent memory, so recomputation of the
// normalisation must not repeat it.
#include <utility>

#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace batch_norm_family_detail {

constexpr std::size_t kX = 0;       // [n, channels, ...]
constexpr std::size_t kWeight = 1;  // [channels], optional
constexpr std::size_t kBias = 2;

void infer(Inference& inference) {
  const Tensor& x = inference.input(kX);
  inference.require(x.shape.rank() >= 2, "needs the axes batch and channels");
  for (std::size_t i : {kWeight, kBias}) {
    if (!inference.has_input(i)) continue;
    const Shape& shape = inference.input(i).shape;
    inference.require(shape == Shape{x.shape[1]}, [&] {
      return fmt::format("the {} has shape {}, but the input {} channels",
                         i == kWeight ? "weight" : "bias", to_string(shape), x.shape[1]);
    });
  }
  create_elementwise(inference, x.shape, x.dtype);
}

// Two passes: one for the statistics, one that normalises.
ForwardKernel forward(const NodeView& node) {
  ForwardKernel kernel{.work = node.elementwise_work(OperatorClass::kNormalization, 8)};
  kernel.work.read += node.input(kX).bytes();
  return kernel;
}

// Evaluation takes one pass, since mean and variance are given. The CPU kernel first makes a factor
// and a summand per channel of them, in tensors of their own.
ForwardKernel evaluate_batch(const NodeView& node) {
  ForwardKernel kernel{.work = node.elementwise_work(OperatorClass::kNormalization, 2)};
  if (node.rules().sums_channels_apart) {
    kernel.temporary = bytes_of(DType::kFloat32, Elements(2 * node.input(kX).shape[1]));
  }
  return kernel;
}

// The CPU kernel sums each channel in tensors of its own before mean and invstd are made.
ForwardKernel forward_batch(const NodeView& node) {
  if (node.attributes().flag("evaluates")) return evaluate_batch(node);
  ForwardKernel kernel = forward(node);
  const std::int64_t channels = node.input(kX).shape[1];
  const Bytes statistics = bytes_of(DType::kFloat32, Elements(2 * channels));
  if (node.rules().sums_channels_apart) kernel.workspace = statistics;
  // Without autograd mean and invstd, which the kernel makes all the same, die with its call.
  if (!node.output().requires_grad)
    kernel.temporary = std::exchange(kernel.workspace, {}) + statistics;
  return kernel;
}

void save(SavedSet& saved) {
  const Shape channels{saved.node().input(kX).shape[1]};
  saved.input(kX);
  if (saved.node().has_input(kWeight)) saved.input(kWeight);
  if (saved.node().attributes().flag("evaluates")) return;  // running statistics, by reference
  saved.extra("mean", channels, DType::kFloat32);
  saved.extra("invstd", channels, DType::kFloat32);
}

// Sums over gradient and input come first, then the input gradient. The CPU kernel makes a second
// buffer of the input's size.
void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  const Tensor& x = node.input(kX);
  BackwardBuilder::Kernel kernel{
      .name = "batch_norm.backward",
      .reads = {gradient, x},
      .work = work_on(OperatorClass::kNormalization, flops_per(12, x), {gradient, x}, {})};
  const bool evaluates = node.attributes().flag("evaluates");
  if (!evaluates) {
    kernel.reads.push_back(b.saved("mean"));
    kernel.reads.push_back(b.saved("invstd"));
  }
  if (node.has_input(kWeight)) kernel.reads.push_back(node.input(kWeight));
  kernel.work.read += gradient.bytes() + x.bytes();
  constexpr std::string_view kNames[] = {"input_gradient", "weight_gradient", "bias_gradient"};
  for (std::size_t i : {kX, kWeight, kBias}) {
    if (!b.needs_gradient(i)) continue;
    const Tensor result = create_dense(b, kNames[i], node.input(i));
    kernel.creates.push_back(result);
    kernel.work.written += result.bytes();
    b.set_input_gradient(i, result);
  }
  // With given statistics the second buffer outlives the operator that makes it.
  if (node.rules().buffers_batch_norm_gradient)
    (evaluates ? kernel.temporary : kernel.workspace) = x.bytes();
  b.launch(kernel);
}

// Returns the bytes of repeated weights: each sample is normalised by itself, by batch_norm over
// [1, n * channels, ...] with the weight and the bias repeated n times.
Bytes repeated_bytes(const NodeView& node) {
  const Shape& x = node.input(kX).shape;
  return bytes_of(DType::kFloat32, Elements(x[0] * x[1]));
}

ForwardKernel forward_instance(const NodeView& node) {
  ForwardKernel kernel = forward(node);
  // The workspace also holds the repeated bias, and the statistics of the CPU kernel as sums and as
  // square sums.
  if (node.has_input(kBias)) kernel.workspace += repeated_bytes(node);
  if (node.rules().sums_channels_apart) kernel.workspace += repeated_bytes(node) * 2;
  return kernel;
}

void save_instance(SavedSet& saved) {
  const Shape& x = saved.node().input(kX).shape;
  const Shape channels{x[0] * x[1]};
  saved.input(kX);
  if (saved.node().has_input(kWeight)) {
    saved.extra("repeated_weight", channels, saved.node().input(kWeight).dtype);
  }
  // The CPU kernel keeps statistics in fp32 beside weights in fp32, else in the input's type.
  const bool narrow =
      !saved.node().rules().norm_statistics_in_fp32 && !saved.node().has_input(kWeight);
  const DType statistics = narrow ? saved.node().input(kX).dtype : DType::kFloat32;
  saved.extra("mean", channels, statistics);
  saved.extra("invstd", channels, statistics);
}

void backward_instance(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  const Tensor& x = node.input(kX);
  BackwardBuilder::Kernel kernel{.name = "instance_norm.backward",
                                 .reads = {gradient, x, b.saved("mean"), b.saved("invstd")},
                                 .work = work_on(OperatorClass::kNormalization, flops_per(12, x),
                                                 {gradient, x, gradient, x}, {})};
  if (node.has_input(kWeight)) kernel.reads.push_back(b.saved("repeated_weight"));
  if (b.needs_gradient(kX)) {
    kernel.creates.push_back(create_dense(b, "input_gradient", x));
    b.set_input_gradient(kX, kernel.creates.back());
  }
  std::vector<std::size_t> affine;
  for (std::size_t i : {kWeight, kBias}) {
    if (!b.needs_gradient(i)) continue;
    affine.push_back(i);
    kernel.creates.push_back(
        b.create("repeated_gradient", {x.shape[0], x.shape[1]}, node.input(i).dtype));
  }
  for (const Tensor& tensor : kernel.creates)
    kernel.work.written += tensor.bytes();
  if (node.rules().buffers_batch_norm_gradient) kernel.workspace = x.bytes();
  b.launch(kernel);
  for (std::size_t at = 0; at < affine.size(); ++at) {
    const Tensor& repeated = kernel.creates[kernel.creates.size() - affine.size() + at];
    b.set_input_gradient(affine[at], b.sum_to(repeated, node.input(affine[at]).shape));
  }
}

void infer_update(Inference& inference) {
  inference.require(inference.attributes().flag("in_place"), "always works in place");
  for (std::size_t i = 0; i < inference.input_count(); ++i)
    inference.in_place(i);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "batch_norm",
     .summary = "normalises channels over the batch; keeps the input, mean and invstd",
     .infer = infer,
     .forward = forward_batch,
     .save = save,
     .backward = backward,
     .in_evaluation = InEvaluation::kOwnKernel},
    {.name = "instance_norm",
     .summary =
         "normalises each channel of each sample; keeps input, statistics and weight n times",
     .infer = infer,
     .forward = forward_instance,
     .save = save_instance,
     .backward = backward_instance},
    {.name = "update_running_stats",
     .summary = "changes the running statistics of batch_norm in place",
     .infer = infer_update,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = no_backward,
     .in_evaluation = InEvaluation::kNothing},
};

}  // namespace batch_norm_family_detail

std::span<const OperatorFamily> batch_norm_families() {
  return batch_norm_family_detail::kFamilies;
}

}  // namespace tidemark
