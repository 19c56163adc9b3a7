// torch._weight_norm of weights normalised along their first or last axis: one kernel, forward and
// backward. nn.utils.weight_norm calls it before each forward pass of its module.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace weight_norm_family_detail {

constexpr std::size_t kDirection = 0;  // v, in the shape of the weight
constexpr std::size_t kMagnitude = 1;  // g, one number per place of the axis that is kept

void infer(Inference& inference) {
  const Tensor& v = inference.input(kDirection);
  const Tensor& g = inference.input(kMagnitude);
  inference.require(broadcast_shapes(inference, v.shape, g.shape) == v.shape,
                    "the magnitudes do not fit the direction");
  inference.create(v.shape, v.dtype);
}

ForwardKernel forward(const NodeView& node) {
  ForwardKernel kernel{.work = node.elementwise_work(OperatorClass::kNormalization, 4)};
  if (!node.output().requires_grad) kernel.temporary = node.input(kMagnitude).bytes();
  return kernel;
}

void save(SavedSet& saved) {
  saved.input(kDirection);
  saved.input(kMagnitude);
  saved.extra("norms", saved.node().input(kMagnitude).shape, saved.node().input(kMagnitude).dtype);
}

void backward(BackwardBuilder& b) {
  const Tensor gradient = b.output_gradient();
  const Tensor& v = b.node().input(kDirection);
  const Tensor& g = b.node().input(kMagnitude);
  const Tensor of_v = b.create_like("direction_gradient", v);
  const Tensor of_g = b.create_like("magnitude_gradient", g);
  b.launch({.name = "weight_norm.backward",
            .reads = {gradient, v, g, b.saved("norms")},
            .creates = {of_v, of_g},
            .work = work_on(OperatorClass::kNormalization, flops_per(8, v), {gradient, v},
                            {of_v, of_g})});
  b.set_input_gradient(kDirection, of_v);
  b.set_input_gradient(kMagnitude, of_g);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "weight_norm",
     .summary = "g v / |v| along an axis; keeps v, g and the norms",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace weight_norm_family_detail

std::span<const OperatorFamily> weight_norm_families() {
  return weight_norm_family_detail::kFamilies;
}

}  // namespace tidemark
