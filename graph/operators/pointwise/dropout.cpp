// torch.nn.functional.dropout while training.
#include "graph/operators/kernels.hpp"
#include "graph/operators/on_view.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace dropout_family_detail {

void infer(Inference& inference) {
  const Tensor& x = inference.input(0);
  const double p = required_dropout_probability(inference);
  if (p == 0) {
    inference.view(0, x.shape, x.strides);
  } else if (inference.attributes().flag("in_place")) {
    inference.in_place(0);
  } else {
    create_elementwise(inference, x.shape, x.dtype);
  }
}

// native_dropout keeps a bool per element. In place, and on a CPU, noise in the input's type is
// made first and multiplied with the input.
DType mask_type(const NodeView& node) {
  const bool fused = node.rules().dropout_mask_is_bool && !node.is_in_place();
  return fused ? DType::kBool : node.input(0).dtype;
}

Bytes mask_bytes(const NodeView& node) {
  return bytes_of(mask_type(node), changed_part(node).elements());
}

ForwardKernel forward(const NodeView& node) {
  if (dropout_probability(node.attributes()) == 0) return {};
  ForwardKernel kernel{.work = node.elementwise_work(OperatorClass::kElementwise, 3)};
  kernel.work.written += mask_bytes(node);
  if (mask_type(node) != DType::kBool) {
    // bernoulli_, div_ and mul: the noise is written twice and read twice.
    kernel.work.written += mask_bytes(node);
    kernel.work.read += mask_bytes(node) * 2;
    kernel.work.launches = 3;
  }
  if (!node.output().requires_grad) kernel.workspace = mask_bytes(node);
  // noise.div_(1 - p) comes before the result is made, unless the result is there already.
  if (node.is_in_place()) {
    kernel.workspace += scalar_temporaries(node.rules(), node.output().dtype);
  }
  return kernel;
}

void save(SavedSet& saved) {
  if (dropout_probability(saved.node().attributes()) == 0) return;
  saved.extra("mask", changed_part(saved.node()).shape, mask_type(saved.node()));
}

void backward(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  if (dropout_probability(b.node().attributes()) == 0) {
    b.set_input_gradient(0, gradient);
    return;
  }
  ChangedPart part(b);
  const Tensor result = create_dense(b, "input_gradient", part.gradient());
  b.launch_elementwise("dropout.backward", {part.gradient(), b.saved("mask")}, result,
                       OperatorClass::kElementwise, 2);
  part.finish(result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "dropout",
     .summary = "zeroes elements with probability p and scales the others; keeps the mask",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward,
     .in_evaluation = InEvaluation::kIdentity},
};

}  // namespace dropout_family_detail

std::span<const OperatorFamily> dropout_families() {
  return dropout_family_detail::kFamilies;
}

}  // namespace tidemark
