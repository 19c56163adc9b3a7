// softmax and log_softmax over one axis.
#include <fmt/format.h>

#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace softmax_family_detail {

// dtype="fp32" computes and returns fp32 whatever the input is: F.softmax(x, dtype=torch.float32).
void infer(Inference& inference) {
  const Tensor& x = inference.input(0);
  inference.require(is_floating(x.dtype),
                    [&] { return fmt::format("its input is {}", name_of(x.dtype)); });
  const std::string dtype = inference.attributes().text("dtype");
  inference.require(dtype.empty() || dtype == "fp32", "dtype is neither absent nor fp32");
  static_cast<void>(
      checked_axis(inference, inference.attributes().integer("axis", -1), x.shape.rank()));
  inference.create(x.shape, dtype.empty() ? x.dtype : DType::kFloat32);
}

// A CPU kernel converts the input first; CUDA converts inside.
Bytes conversion(const NodeView& node, const Tensor& tensor) {
  const bool converts = node.output().dtype != node.input(0).dtype;
  return converts && node.rules().converts_before_softmax ? tensor.bytes() : Bytes(0);
}

// The columns are those of the axis that is summed.
void add_extent(const NodeView& node, Work& work) {
  const Tensor& x = node.input(0);
  const std::int64_t axis = node.attributes().integer("axis", -1);
  const std::int64_t columns =
      x.shape.rank() > 0 ? x.shape[static_cast<int>(axis < 0 ? axis + x.shape.rank() : axis)] : 1;
  work.extent = {columns > 0 ? x.elements().count / columns : 0, columns, 0, 0};
}

ForwardKernel forward(const NodeView& node) {
  ForwardKernel kernel{.work = node.elementwise_work(OperatorClass::kSoftmax, 5),
                       .workspace = conversion(node, node.output())};
  add_extent(node, kernel.work);
  return kernel;
}

void save(SavedSet& saved) {
  if (saved.node().rules().softmax_saves_input) saved.input(0);
  saved.output();
}

void launch_backward(BackwardBuilder& b, std::string_view name, Bytes workspace, int launches) {
  const Tensor gradient = b.output_gradient();
  const Tensor& output = b.node().output();
  const Tensor result = b.create_like("input_gradient", b.node().input(0));
  Work work = work_on(OperatorClass::kSoftmax, flops_per(4, output), {gradient, output}, {result});
  work.launches = launches;
  add_extent(b.node(), work);
  b.launch({.name = name,
            .reads = {gradient, output},
            .creates = {result},
            .work = work,
            .workspace = workspace + conversion(b.node(), output)});
  b.set_input_gradient(0, result);
}

// softmax_backward_cuda_out multiplies gradient and output into a tensor of its own first.
void backward_softmax(BackwardBuilder& b) {
  const bool product = b.node().rules().softmax_gradient_product;
  launch_backward(b, "softmax.backward", product ? b.node().output().bytes() : Bytes(0),
                  product ? 2 : 1);
}

void backward_log_softmax(BackwardBuilder& b) {
  launch_backward(b, "log_softmax.backward", Bytes(0), 1);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "softmax",
     .summary = "softmax over one axis; keeps its output",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward_softmax},
    {.name = "log_softmax",
     .summary = "logarithm of softmax over one axis; keeps its output",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward_log_softmax},
};

}  // namespace softmax_family_detail

std::span<const OperatorFamily> softmax_families() {
  return softmax_family_detail::kFamilies;
}

}  // namespace tidemark
