// Mean losses. cross_entropy is log_softmax followed by nll_loss, two autograd nodes as in PyTorch.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace {

constexpr std::size_t kPrediction = 0;
constexpr std::size_t kTarget = 1;

// Log-probabilities have the classes at axis 1, targets do not have that axis.
void infer_nll(Inference& inference) {
  const Tensor& x = inference.input(kPrediction);
  const Tensor& target = inference.input(kTarget);
  inference.require(x.shape.rank() >= 2, "needs the axes samples and classes");
  inference.require(target.dtype == DType::kInt64,
                    fmt::format("targets are {}, not int64", name_of(target.dtype)));
  Shape wanted;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (axis != 1) wanted.push_back(x.shape[axis]);
  }
  inference.require(target.shape == wanted,
                    fmt::format("targets have shape {} instead of {}", to_string(target.shape),
                                to_string(wanted)));
  inference.create({}, x.dtype);
}

ForwardKernel forward_nll(const NodeView& node) {
  const Tensor& target = node.input(kTarget);
  Work work{.op_class = OperatorClass::kReduction, .dtype = node.output().dtype};
  work.flops = flops_per(1, target);
  work.read = target.bytes() + Bytes(target.elements() * size_of(work.dtype));
  work.written = node.output().bytes();
  return {.work = work};
}

// Backward asks the log-probabilities for their shape only, but they are kept.
void save_nll(SavedSet& saved) {
  saved.input(kPrediction);
  saved.input(kTarget);
  saved.extra("total_weight", {}, saved.node().input(kPrediction).dtype);
}

void backward_nll(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor& target = b.node().input(kTarget);
  const Tensor result = b.create_like("input_gradient", b.node().input(kPrediction));
  Work work = work_on(OperatorClass::kMemset, flops_per(1, target), {gradient, target}, {result});
  work.dtype = result.dtype;
  work.launches = 2;  // zeros, then one element per sample
  b.launch({.name = "nll_loss.backward",
            .reads = {gradient, target, b.saved("total_weight")},
            .creates = {result},
            .work = work});
  b.set_input_gradient(kPrediction, result);
}

void infer_mse(Inference& inference) {
  const Tensor& x = inference.input(kPrediction);
  const Tensor& target = inference.input(kTarget);
  inference.require(x.shape == target.shape, "prediction and target differ in shape");
  inference.create({}, x.dtype);
}

// The squares are a tensor of their own before their mean is taken.
ForwardKernel forward_mse(const NodeView& node) {
  const Tensor& x = node.input(kPrediction);
  Work work = work_on(OperatorClass::kReduction, flops_per(4, x), {x, node.input(kTarget), x}, {x});
  work.launches = 2;
  return {.work = work, .workspace = x.bytes()};
}

void save_mse(SavedSet& saved) {
  saved.input(kPrediction);
  saved.input(kTarget);
}

void backward_mse(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor& x = b.node().input(kPrediction);
  const Tensor& target = b.node().input(kTarget);
  for (std::size_t i : {kPrediction, kTarget}) {
    if (!b.needs_gradient(i)) continue;
    const Tensor result = b.create_like("input_gradient", x);
    b.launch_elementwise("mse_loss.backward", {gradient, x, target}, result,
                         OperatorClass::kElementwise, 3);
    b.set_input_gradient(i, result);
  }
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "nll_loss",
     .summary = "mean negative log-likelihood; keeps log-probabilities, targets and a scalar",
     .infer = infer_nll,
     .forward = forward_nll,
     .save = save_nll,
     .backward = backward_nll},
    {.name = "mse_loss",
     .summary = "mean squared error; keeps prediction and target",
     .infer = infer_mse,
     .forward = forward_mse,
     .save = save_mse,
     .backward = backward_mse},
};

}  // namespace

std::span<const OperatorFamily> loss_families() {
  return kFamilies;
}

}  // namespace tidemark
