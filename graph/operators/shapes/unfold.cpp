// torch.nn.functional.unfold (im2col): the patches of an image [batch, channels, height, width] as
// columns [batch, channels * kernel height * kernel width, places]. Its kernel reads a contiguous
// image, its backward (col2im) contiguous columns: others are copied inside of it.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"
#include "graph/operators/windows.hpp"

namespace tidemark {
namespace unfold_family_detail {

void infer(Inference& inference) {
  const Tensor& x = inference.input(0);
  require_spatial(inference, x, 2);
  std::int64_t places = 1;
  std::int64_t rows = x.shape[1];
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t kernel = per_axis(inference.attributes(), "kernel", axis, 1);
    places *= window_along(inference, axis, kernel).places();
    rows *= kernel;
  }
  inference.create({x.shape[0], rows, places}, x.dtype);
}

Bytes copy_of(const Tensor& tensor) {
  return tensor.is_contiguous() ? Bytes(0) : tensor.bytes();
}

ForwardKernel forward(const NodeView& node) {
  return {.work = node.elementwise_work(OperatorClass::kElementwise, 0),
          .workspace = copy_of(node.input(0))};
}

void backward(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  Work work = work_on(OperatorClass::kElementwise, flops_per(1, gradient), {gradient}, {result});
  work.dtype = result.dtype;
  b.launch({.name = "unfold.backward",
            .reads = {gradient},
            .creates = {result},
            .work = work,
            .workspace = copy_of(gradient)});
  b.set_input_gradient(0, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "unfold",
     .summary = "patches of an image as columns, by kernel, stride, padding and dilation; keeps "
                "nothing",
     .infer = infer,
     .forward = forward,
     .save = save_nothing,
     .backward = backward},
};

}  // namespace unfold_family_detail

std::span<const OperatorFamily> unfold_families() {
  return unfold_family_detail::kFamilies;
}

}  // namespace tidemark
