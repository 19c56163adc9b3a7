// batch_norm in training mode. The running statistics are updated by a node of their own: it writes
// persistent memory, so recomputation of the normalisation must not repeat it.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace {

constexpr std::size_t kX = 0;       // [n, channels, ...]
constexpr std::size_t kWeight = 1;  // [channels], optional
constexpr std::size_t kBias = 2;

void infer(Inference& inference) {
  const Tensor& x = inference.input(kX);
  inference.require(x.shape.rank() >= 2, "needs the axes batch and channels");
  for (std::size_t i : {kWeight, kBias}) {
    if (!inference.has_input(i)) continue;
    const Shape& shape = inference.input(i).shape;
    inference.require(shape == Shape{x.shape[1]},
                      fmt::format("the {} has shape {}, but the input {} channels",
                                  i == kWeight ? "weight" : "bias", to_string(shape), x.shape[1]));
  }
  create_elementwise(inference, x.shape, x.dtype);
}

// One pass for the statistics, one that normalises.
ForwardKernel forward(const NodeView& node) {
  ForwardKernel kernel{.work = node.elementwise_work(OperatorClass::kNormalization, 8)};
  kernel.work.read += node.input(kX).bytes();
  return kernel;
}

void save(SavedSet& saved) {
  const Shape channels{saved.node().input(kX).shape[1]};
  saved.input(kX);
  if (saved.node().has_input(kWeight)) saved.input(kWeight);
  saved.extra("mean", channels, DType::kFloat32);
  saved.extra("invstd", channels, DType::kFloat32);
}

// Sums over gradient and input first, then the input gradient. The CPU kernel makes a second
// buffer of the input's size.
void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  const Tensor& x = node.input(kX);
  BackwardBuilder::Kernel kernel{
      .name = "batch_norm.backward",
      .reads = {gradient, x, b.saved("mean"), b.saved("invstd")},
      .work = work_on(OperatorClass::kNormalization, flops_per(12, x), {gradient, x}, {})};
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
  if (runs_on_cpu(node.rules())) kernel.workspace = x.bytes();
  b.launch(kernel);
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
     .forward = forward,
     .save = save,
     .backward = backward},
    {.name = "update_running_stats",
     .summary = "changes the running statistics of batch_norm in place",
     .infer = infer_update,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = no_backward},
};

}  // namespace

std::span<const OperatorFamily> batch_norm_families() {
  return kFamilies;
}

}  // namespace tidemark
