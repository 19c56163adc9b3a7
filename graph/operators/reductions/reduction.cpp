// mean and sum over axes.
#include "graph/operators/reductions/reduction.hpp"

#include <algorithm>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {

std::array<bool, kMaxRank> reduced_axes(const std::vector<std::int64_t>& axes, int rank) {
  std::array<bool, kMaxRank> reduced{};
  for (int axis = 0; axis < rank; ++axis) {
    reduced[static_cast<std::size_t>(axis)] =
        axes.empty() || std::find(axes.begin(), axes.end(), axis) != axes.end() ||
        std::find(axes.begin(), axes.end(), axis - rank) != axes.end();
  }
  return reduced;
}

Shape reduced_shape(const Inference& inference) {
  const Tensor& x = inference.input(0);
  const std::vector<std::int64_t> axes = inference.attributes().list("axes");
  for (std::int64_t axis : axes) {
    static_cast<void>(checked_axis(inference, axis, x.shape.rank()));
  }
  const auto reduced = reduced_axes(axes, x.shape.rank());
  const bool keep = inference.attributes().flag("keepdim");
  Shape shape;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    if (!reduced[static_cast<std::size_t>(axis)]) {
      shape.push_back(x.shape[axis]);
    } else if (keep) {
      shape.push_back(1);
    }
  }
  return shape;
}

Tensor expanded_gradient(const BackwardBuilder& b) {
  const Tensor& x = b.node().input(0);
  const Tensor gradient = b.output_gradient();
  const bool keep = b.node().attributes().flag("keepdim");
  const auto reduced = reduced_axes(b.node().attributes().list("axes"), x.shape.rank());
  Tensor expanded = gradient;
  expanded.shape = x.shape;
  expanded.strides = x.shape;
  int from = 0;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const bool dropped = reduced[static_cast<std::size_t>(axis)];
    expanded.strides[axis] = dropped ? 0 : gradient.strides[from];
    if (!dropped || keep) ++from;
  }
  return expanded;
}

namespace reduction_family_detail {

void infer(Inference& inference) {
  inference.create(reduced_shape(inference), inference.input(0).dtype);
}

ForwardKernel forward(const NodeView& node) {
  const Tensor& x = node.input(0);
  return {.work = work_on(OperatorClass::kReduction, flops_per(1, x), {x}, {node.output()})};
}

// A CPU divides the sum by a Python number.
ForwardKernel forward_mean(const NodeView& node) {
  ForwardKernel kernel = forward(node);
  kernel.workspace = scalar_temporaries(node.rules(), node.output().dtype);
  return kernel;
}

// MeanBackward1, the backward of mean over named axes, keeps its input in 1.13.
void save_mean(SavedSet& saved) {
  const bool over_axes = !saved.node().attributes().list("axes").empty();
  if (over_axes && saved.node().rules().mean_saves_input) saved.input(0);
}

void backward_mean(BackwardBuilder& b) {
  const Tensor expanded = expanded_gradient(b);
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  b.launch(
      {.name = "mean.backward",
       .reads = {expanded},
       .creates = {result},
       .work = work_on(OperatorClass::kElementwise, flops_per(1, result), {expanded}, {result}),
       .workspace = scalar_temporaries(b.node().rules(), result.dtype)});
  b.set_input_gradient(0, result);
}

void backward_sum(BackwardBuilder& b) {
  b.set_input_gradient(0, expanded_gradient(b));
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "mean",
     .summary = "mean over axes",
     .infer = infer,
     .forward = forward_mean,
     .save = save_mean,
     .backward = backward_mean},
    {.name = "sum",
     .summary = "sum over axes; its gradient is a view",
     .infer = infer,
     .forward = forward,
     .save = save_nothing,
     .backward = backward_sum},
};

}  // namespace reduction_family_detail

std::span<const OperatorFamily> reduction_families() {
  return reduction_family_detail::kFamilies;
}

}  // namespace tidemark
