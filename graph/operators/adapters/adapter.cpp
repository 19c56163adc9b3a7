// Operators that adapters add to a model beside products and sums.
#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace adapter_family_detail {

constexpr std::size_t kWeight = 0;  // [out, in]; [in, out] with transposed_weight
constexpr std::size_t kDown = 1;    // A [rank, in]
constexpr std::size_t kUp = 2;      // B [out, rank]

void infer_leaf(Inference& inference) {
  const Tensor& x = inference.input(0);
  inference.require(is_floating(x.dtype), "only floating-point tensors have a gradient");
  inference.view(0, x.shape, x.strides);
  inference.follow_gradient(true);
}

// The gradient of the leaf becomes its .grad.
void backward_leaf(BackwardBuilder& b) {
  b.keep_gradient(b.output_gradient());
}

void infer_norm(Inference& inference) {
  const Tensor& down = inference.input(kDown);
  const Tensor& up = inference.input(kUp);
  inference.require(down.shape.rank() == 2 && up.shape.rank() == 2 && up.shape[1] == down.shape[0],
                    "needs the two matrices of an adapter");
  inference.create({up.shape[0]}, down.dtype);
  inference.follow_gradient(false);
}

// The identity goes through A and B; W + s B A and its norm follow: in x in for the identity, and
// three matrices of the weight's size. A quantised weight is dequantised for it.
ForwardKernel forward_norm(const NodeView& node) {
  const Tensor& down = node.input(kDown);
  const Tensor& up = node.input(kUp);
  const std::int64_t rank = down.shape[0];
  const std::int64_t in = down.shape[1];
  const std::int64_t out = up.shape[0];
  const auto bytes = [&](std::int64_t elements) {
    return bytes_of(down.dtype, Elements(elements));
  };
  ForwardKernel kernel{.work = matmul_work(down.dtype, in, rank, in, 1)};
  kernel.work.flops += matmul_work(down.dtype, in, out, rank, 1).flops +
                       Flops(4.0 * static_cast<double>(in) * static_cast<double>(out));
  kernel.work.read += node.input(kWeight).bytes() + bytes(4 * in * out);
  kernel.work.written += bytes(in * in + 3 * in * out);
  kernel.work.launches = 7;
  kernel.temporary = bytes(in * in + in * rank + 3 * in * out);
  return kernel;
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "require_gradient",
     .summary = "makes its input a leaf that requires a gradient (enable_input_require_grads)",
     .infer = infer_leaf,
     .forward = no_kernel,
     .save = save_nothing,
     .backward = backward_leaf},
    {.name = "adapted_weight_norm",
     .summary = "norms of the rows of a weight with its adapter, without gradient (DoRA)",
     .infer = infer_norm,
     .forward = forward_norm,
     .save = save_nothing,
     .backward = no_backward},
};

}  // namespace adapter_family_detail

std::span<const OperatorFamily> adapter_families() {
  return adapter_family_detail::kFamilies;
}

}  // namespace tidemark
