// Losses of class indices. cross_entropy is log_softmax followed by nll_loss, two autograd nodes as
// in PyTorch; label smoothing adds the mean over the classes.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace loss_family_detail {

constexpr std::size_t kPrediction = 0;
constexpr std::size_t kTarget = 1;

// Log-probabilities have the classes at axis 1, targets do not have that axis.
void infer_nll(Inference& inference) {
  const Tensor& x = inference.input(kPrediction);
  const Tensor& target = inference.input(kTarget);
  inference.require(x.shape.rank() >= 2, "needs the axes samples and classes");
  inference.require(target.dtype == DType::kInt64, [&] {
    return fmt::format("targets are {}, not int64", name_of(target.dtype));
  });
  Shape wanted;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (axis != 1) wanted.push_back(x.shape[axis]);
  }
  inference.require(target.shape == wanted, [&] {
    return fmt::format("targets have shape {} instead of {}", to_string(target.shape),
                       to_string(wanted));
  });
  const bool per_sample = inference.attributes().flag("per_sample");
  inference.create(per_sample ? target.shape : Shape(), x.dtype);
}

ForwardKernel forward_nll(const NodeView& node) {
  const Tensor& target = node.input(kTarget);
  Work work{.op_class = OperatorClass::kReduction, .dtype = node.output().dtype};
  work.flops = flops_per(1, target);
  work.read = target.bytes() + bytes_of(work.dtype, target.elements());
  work.written = node.output().bytes();
  return {.work = work};
}

// Backward needs only the shape of the log-probabilities, but they are kept.
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

// Computes -log_probabilities.sum(classes), zeroed where the target is ignored, and the mean of the
// values that a mask selects: cross_entropy_loss_label_smoothing in LossNLL.cpp.
ForwardKernel forward_smoothing(const NodeView& node) {
  const Tensor& x = node.input(kPrediction);
  const Tensor& target = node.input(kTarget);
  Work work = work_on(OperatorClass::kReduction, flops_per(1, x), {x}, {target});
  work.launches = 8;
  // masked_select's int64 positions and their number, before the result is made.
  const Bytes positions = bytes_of(DType::kInt64, Elements(target.elements().count + 1));
  return {.work = work, .workspace = positions - node.output().bytes()};
}

void save_smoothing(SavedSet& saved) {
  const Shape& samples = saved.node().input(kTarget).shape;
  saved.extra("ignored", samples, DType::kBool);
  saved.extra("selected", samples, DType::kBool);
  saved.extra("sums", samples, saved.node().input(kPrediction).dtype);
}

// One number per sample, repeated over the classes without a copy.
void backward_smoothing(BackwardBuilder& b) {
  const Tensor& x = b.node().input(kPrediction);
  const Tensor& target = b.node().input(kTarget);
  const Tensor rows = b.create("row_gradient", target.shape, x.dtype);
  Work work = work_on(OperatorClass::kElementwise, flops_per(4, rows),
                      {b.output_gradient(), rows, rows}, {rows, rows, rows});
  work.launches = 5;
  b.launch(
      {.name = "smoothing_loss.backward",
       .reads = {b.output_gradient(), b.saved("ignored"), b.saved("selected"), b.saved("sums")},
       .creates = {rows},
       .work = work,
       .workspace = rows.bytes()});
  Tensor expanded = rows;
  expanded.shape = x.shape;
  expanded.strides = x.shape;
  int from = 0;
  for (int axis = 0; axis < x.shape.rank(); ++axis)
    expanded.strides[axis] = axis == 1 ? 0 : rows.strides[from++];
  b.set_input_gradient(kPrediction, expanded);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "nll_loss",
     .summary =
         "mean negative log-likelihood, or per_sample that of each; keeps log-probabilities, "
         "targets and a scalar",
     .infer = infer_nll,
     .forward = forward_nll,
     .save = save_nll,
     .backward = backward_nll},
    {.name = "smoothing_loss",
     .summary = "the part of cross_entropy that label smoothing adds; keeps three rows of samples",
     .infer = infer_nll,
     .forward = forward_smoothing,
     .save = save_smoothing,
     .backward = backward_smoothing},
};

}  // namespace loss_family_detail

std::span<const OperatorFamily> loss_families() {
  return loss_family_detail::kFamilies;
}

}  // namespace tidemark
