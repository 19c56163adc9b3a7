// Dropout of whole channels and of whole samples: the input times broadcast noise in its own type,
// on CUDA as on a CPU.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace noise_family_detail {

void infer(Inference& inference) {
  const Tensor& x = inference.input(0);
  const double p = required_dropout_probability(inference);
  inference.require(x.shape.rank() >= 2, "needs the axes batch and channels");
  const std::string mode = inference.attributes().text("mode", "row");
  inference.require(mode == "row" || mode == "batch",
                    [&] { return fmt::format("mode '{}' is neither row nor batch", mode); });
  if (p == 0) {
    inference.view(0, x.shape, x.strides);
  } else {
    create_elementwise(inference, x.shape, x.dtype);
  }
}

constexpr int kPerChannel = 0;
constexpr int kPerSample = 1;

// One number per sample and channel; stochastic_depth: per sample, or one for the batch.
Shape noise_shape(const NodeView& node) {
  const Shape& x = node.input(0).shape;
  Shape shape = x;
  for (int axis = 0; axis < x.rank(); ++axis)
    shape[axis] = 1;
  if (node.family_variant() == kPerChannel) {
    shape[0] = x[0];
    shape[1] = x[1];
  } else if (node.attributes().text("mode", "row") == "row") {
    shape[0] = x[0];
  }
  return shape;
}

ForwardKernel forward(const NodeView& node) {
  if (dropout_probability(node.attributes()) == 0) return {};
  ForwardKernel kernel{.work = node.elementwise_work(OperatorClass::kElementwise, 1)};
  const Bytes noise = bytes_of(node.input(0).dtype, element_count(noise_shape(node)));
  kernel.work.read += noise * 2;  // bernoulli_, div_, mul
  kernel.work.written += noise * 2;
  kernel.work.launches = 3;
  if (!node.output().requires_grad) kernel.workspace = noise;
  return kernel;
}

void save(SavedSet& saved) {
  if (dropout_probability(saved.node().attributes()) == 0) return;
  saved.extra("noise", noise_shape(saved.node()), saved.node().input(0).dtype);
}

void backward(BackwardBuilder& b) {
  if (dropout_probability(b.node().attributes()) == 0) {
    pass_gradient(b);
    return;
  }
  const Tensor gradient = b.output_gradient();
  const Tensor result = create_dense(b, "input_gradient", gradient);
  const std::string name = std::string(b.node().family_name()) + ".backward";
  b.launch_elementwise(name, {gradient, b.saved("noise")}, result);
  b.set_input_gradient(0, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "feature_dropout",
     .summary = "dropout1d, 2d and 3d: zeroes channels; keeps one number per channel and sample",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward,
     .in_evaluation = InEvaluation::kIdentity,
     .variant = kPerChannel},
    {.name = "stochastic_depth",
     .summary = "torchvision's: zeroes samples (mode row) or the batch; keeps a number for each",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward,
     .in_evaluation = InEvaluation::kIdentity,
     .variant = kPerSample},
};

}  // namespace noise_family_detail

std::span<const OperatorFamily> noise_families() {
  return noise_family_detail::kFamilies;
}

}  // namespace tidemark
