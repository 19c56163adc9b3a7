// Mean losses of two tensors of one shape: mse, smooth_l1, huber, binary cross-entropy with and
// without logits. l1 and kl_div are composites (modules/losses.hpp).
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace regression_loss_family_detail {

constexpr std::size_t kPrediction = 0;
constexpr std::size_t kTarget = 1;

void require_same_shape(const Inference& inference) {
  inference.require(inference.input(kPrediction).shape == inference.input(kTarget).shape,
                    "prediction and target differ in shape");
}

// The result's memory is allocated for the unreduced loss and then resized to a scalar, which frees
// nothing: TORCH_META_FUNC(mse_loss), binary_cross_entropy_out_cpu. The loss keeps it until the end
// of the step.
void infer_resized(Inference& inference) {
  require_same_shape(inference);
  const Tensor x = inference.input(kPrediction);
  inference.create_scalar_in(x.elements(), x.dtype);
}

// Without a reduction the loss has the prediction's shape.
void infer_reduced(Inference& inference) {
  require_same_shape(inference);
  const Tensor x = inference.input(kPrediction);
  const bool reduced = inference.attributes().text("reduction", "mean") != "none";
  inference.create(reduced ? Shape{} : x.shape, x.dtype);
}

void infer_scalar(Inference& inference) {
  require_same_shape(inference);
  inference.create({}, inference.input(kPrediction).dtype);
}

Work loss_work(const NodeView& node, double flops) {
  const Tensor& x = node.input(kPrediction);
  Work work =
      work_on(OperatorClass::kReduction, flops_per(flops, x), {x, node.input(kTarget), x}, {x});
  work.launches = 2;
  return work;
}

// The unreduced losses are a tensor of their own before their mean is taken.
ForwardKernel forward_resized(const NodeView& node) {
  const Tensor& x = node.input(kPrediction);
  return {.work = loss_work(node, 4),
          .workspace = x.bytes() + scalar_temporaries(node.rules(), x.dtype)};
}

void save_both(SavedSet& saved) {
  saved.input(kPrediction);
  saved.input(kTarget);
}

void launch_backward(BackwardBuilder& b, Bytes workspace) {
  const Tensor gradient = b.output_gradient();
  const Tensor& x = b.node().input(kPrediction);
  const Tensor& target = b.node().input(kTarget);
  const std::string name = std::string(b.node().family_name()) + ".backward";
  for (std::size_t i : {kPrediction, kTarget}) {
    if (!b.needs_gradient(i)) continue;
    const Tensor result = b.create_like("input_gradient", x);
    b.launch_elementwise(name, {gradient, x, target}, result, OperatorClass::kElementwise, 3,
                         workspace);
    b.set_input_gradient(i, result);
  }
}

void backward_both(BackwardBuilder& b) {
  launch_backward(b, Bytes(0));
}

// The gradient of the mean is divided by the number of elements in a kernel of its own.
void backward_logits(BackwardBuilder& b) {
  launch_backward(b, scalar_temporaries(b.node().rules(), b.node().input(kPrediction).dtype));
}

// 1.13: (1 - target) * input + max + log(exp(-max) + exp(-input - max)), five tensors at once.
// 2.4: (1 - target) * input - logsigmoid(input), two. All of them are freed when the mean is made.
ForwardKernel forward_logits(const NodeView& node) {
  const int tensors = node.rules().bce_logits_temporaries;
  ForwardKernel kernel{
      .work = loss_work(node, 12),
      .workspace = node.input(kPrediction).bytes() * tensors - node.output().bytes()};
  kernel.work.read += node.input(kPrediction).bytes() * tensors;
  kernel.work.written += node.input(kPrediction).bytes() * tensors;
  kernel.work.launches = 2 + tensors;
  return kernel;
}

constexpr OperatorFamily loss(std::string_view name, std::string_view summary,
                              void (*infer)(Inference&), ForwardKernel (*forward)(const NodeView&),
                              void (*backward)(BackwardBuilder&) = backward_both) {
  return {.name = name,
          .summary = summary,
          .infer = infer,
          .forward = forward,
          .save = save_both,
          .backward = backward};
}

constexpr OperatorFamily kFamilies[] = {
    loss("mse_loss", "mean squared error; keeps prediction and target", infer_resized,
         forward_resized),
    loss("smooth_l1_loss", "mean of squares near zero and absolute values; keeps both",
         infer_resized, forward_resized),
    loss("huber_loss", "mean of squares near zero and absolute values; keeps both", infer_scalar,
         forward_resized),
    loss("bce_loss", "mean binary cross-entropy of probabilities; keeps both", infer_resized,
         forward_resized),
    loss("bce_with_logits_loss", "mean binary cross-entropy of logits; keeps both", infer_reduced,
         forward_logits, backward_logits),
};

}  // namespace regression_loss_family_detail

std::span<const OperatorFamily> regression_loss_families() {
  return regression_loss_family_detail::kFamilies;
}

}  // namespace tidemark
