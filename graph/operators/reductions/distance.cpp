// torch.cdist: the distances of every row of one tensor from every row of another. Up to 25 rows
// each, one kernel computes them; beyond that PyTorch multiplies matrices and keeps the same.
#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace distance_family_detail {

constexpr std::size_t kLeft = 0;   // [.., rows, width]
constexpr std::size_t kRight = 1;  // [.., columns, width]

void infer(Inference& inference) {
  const Tensor& left = inference.input(kLeft);
  const Tensor& right = inference.input(kRight);
  inference.require(
      left.shape.rank() >= 2 && right.shape.rank() >= 2 && left.shape[-1] == right.shape[-1],
      "both need the axes rows and width, of one width");
  const auto batch_of = [](const Shape& shape) {
    Shape batch;
    for (int axis = 0; axis + 2 < shape.rank(); ++axis)
      batch.push_back(shape[axis]);
    return batch;
  };
  Shape result = broadcast_shapes(inference, batch_of(left.shape), batch_of(right.shape));
  result.push_back(left.shape[-2]);
  result.push_back(right.shape[-2]);
  inference.create(result, left.dtype);
}

double flops(const NodeView& node) {
  return 3 * static_cast<double>(node.output().elements().count) *
         static_cast<double>(node.input(kLeft).shape[-1]);
}

ForwardKernel forward(const NodeView& node) {
  const Tensor& out = node.output();
  return {.work = work_on(OperatorClass::kReduction, Flops(flops(node)),
                          {node.input(kLeft), node.input(kRight)}, {out})};
}

void save(SavedSet& saved) {
  saved.input(kLeft);
  saved.input(kRight);
  saved.output();
}

// _cdist_backward once for each side. The left one takes a contiguous copy of the gradient, the
// right one copies of gradient and result with rows and columns exchanged.
void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  for (const std::size_t i : {kLeft, kRight}) {
    if (!b.needs_gradient(i)) continue;
    const int copies = i == kRight ? 2 : gradient.is_contiguous() ? 0 : 1;
    const Tensor result = b.create_like("distance_gradient", node.input(i));
    Work work = work_on(OperatorClass::kReduction, Flops(flops(node)),
                        {gradient, node.output(), node.input(kLeft), node.input(kRight)}, {result});
    b.launch({.name = "cdist.backward",
              .reads = {gradient, node.output(), node.input(kLeft), node.input(kRight)},
              .creates = {result},
              .work = work,
              .temporary = node.output().bytes() * copies});
    set_fitted_gradient(b, i, result);
  }
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "cdist",
     .summary = "distances of rows from rows; keeps both tensors and the result",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace distance_family_detail

std::span<const OperatorFamily> distance_families() {
  return distance_family_detail::kFamilies;
}

}  // namespace tidemark
