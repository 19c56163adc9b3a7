// Activations that are not a function of one element alone or keep more than one tensor: glu,
// logsigmoid, prelu.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace gated_family_detail {

// a sigmoid(b) of the halves a and b of one axis.
void infer_glu(Inference& inference) {
  const Tensor& x = inference.input(0);
  const int axis =
      checked_axis(inference, inference.attributes().integer("axis", -1), x.shape.rank());
  inference.require(x.shape[axis] % 2 == 0, [&] {
    return fmt::format("axis {} of extent {} has no halves", axis, x.shape[axis]);
  });
  Shape shape = x.shape;
  shape[axis] /= 2;
  inference.create(shape, x.dtype);
}

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 6)};
}

void save_input(SavedSet& saved) {
  saved.input(0);
}

void backward_glu(BackwardBuilder& b) {
  const Tensor& x = b.node().input(0);
  const Tensor result = b.create_like("input_gradient", x);
  b.launch_elementwise("glu.backward", {b.output_gradient(), x}, result,
                       OperatorClass::kElementwise, 8);
  b.set_input_gradient(0, result);
}

void infer_logsigmoid(Inference& inference) {
  create_elementwise(inference, inference.input(0).shape, inference.input(0).dtype);
}

// The CPU kernel keeps exp(-|x|) for backward; on CUDA the buffer is empty.
ForwardKernel forward_logsigmoid(const NodeView& node) {
  ForwardKernel kernel = forward(node);
  const bool drops_buffer = node.rules().keeps_logsigmoid_buffer && !node.output().requires_grad;
  if (drops_buffer) kernel.workspace = node.input(0).bytes();
  return kernel;
}

void save_logsigmoid(SavedSet& saved) {
  const Tensor& x = saved.node().input(0);
  saved.input(0);
  if (saved.node().rules().keeps_logsigmoid_buffer) saved.extra("buffer", x.shape, x.dtype);
}

void backward_logsigmoid(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  std::vector<Tensor> reads{gradient, b.node().input(0)};
  if (b.node().rules().keeps_logsigmoid_buffer) reads.push_back(b.saved("buffer"));
  const Tensor result = create_dense(b, "input_gradient", gradient);
  b.launch_elementwise("logsigmoid.backward", reads, result, OperatorClass::kElementwise, 4);
  b.set_input_gradient(0, result);
}

constexpr std::size_t kX = 0;       // [n, channels, ...]
constexpr std::size_t kWeight = 1;  // [1] or [channels]

void infer_prelu(Inference& inference) {
  const Tensor& x = inference.input(kX);
  const Shape& weight = inference.input(kWeight).shape;
  const bool per_channel = x.shape.rank() >= 2 && weight == Shape{x.shape[1]};
  inference.require(weight == Shape{1} || per_channel, [&] {
    return fmt::format("a weight of shape {} is neither one number nor one per channel",
                       to_string(weight));
  });
  create_elementwise(inference, x.shape, x.dtype);
}

void save_prelu(SavedSet& saved) {
  saved.input(kX);
  saved.input(kWeight);
}

// The kernel collects the weight's gradient in one element per element of the input, then sums it.
void backward_prelu(BackwardBuilder& b) {
  const Tensor& x = b.node().input(kX);
  const Tensor gradient = b.output_gradient();
  const Tensor result = create_dense(b, "input_gradient", x);
  const Tensor of_weight = b.create_like("weight_gradient", b.node().input(kWeight));
  b.launch({.name = "prelu.backward",
            .reads = {gradient, x, b.node().input(kWeight)},
            .creates = {result, of_weight},
            .work = work_on(OperatorClass::kElementwise, flops_per(3, x), {gradient, x, x},
                            {result, x, of_weight}),
            .workspace = x.bytes()});
  b.set_input_gradient(kX, result);
  b.set_input_gradient(kWeight, of_weight);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "glu",
     .summary = "a sigmoid(b) of the halves of an axis; keeps its input",
     .infer = infer_glu,
     .forward = forward,
     .save = save_input,
     .backward = backward_glu},
    {.name = "logsigmoid",
     .summary = "log(sigmoid(x)); keeps its input, on a CPU a buffer of the same size too",
     .infer = infer_logsigmoid,
     .forward = forward_logsigmoid,
     .save = save_logsigmoid,
     .backward = backward_logsigmoid},
    {.name = "prelu",
     .summary = "leaky_relu with a trained slope; keeps its input",
     .infer = infer_prelu,
     .forward = forward,
     .save = save_prelu,
     .backward = backward_prelu},
};

}  // namespace gated_family_detail

std::span<const OperatorFamily> gated_families() {
  return gated_family_detail::kFamilies;
}

}  // namespace tidemark
