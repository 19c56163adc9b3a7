// Cut cross-entropy (Wijmans et al. 2024, apple/ml-cross-entropy): tiles of logits stay in shared
// memory, in forward as in backward.
#include "graph/operators/losses/chunk_kernels.hpp"
#include "graph/operators/losses/chunked_losses.hpp"

namespace tidemark {
namespace cut_cross_entropy_detail {
namespace {

void infer(Inference& inference) {
  infer_head_loss(inference, DType::kFloat32);
}

// The product, without the logits' way through memory.
Work tile_product(const NodeView& node, double products) {
  const HeadExtent extent = head_extent(node);
  Work work = head_product(node, extent.rows);
  work.flops = work.flops * products;
  work.written = bytes_of(DType::kFloat32, Elements(extent.rows * 2));
  return work;
}

ForwardKernel forward(const NodeView& node) {
  // Log-sums and the targets' logits, before their difference is averaged.
  const Bytes per_row = bytes_of(DType::kFloat32, Elements(head_extent(node).rows));
  return {.work = tile_product(node, 1), .temporary = per_row};
}

void save(SavedSet& saved) {
  const NodeView& node = saved.node();
  saved.input(kLossRows);
  saved.input(kLossWeight);
  saved.input(kLossTargets);
  if (node.has_input(kLossBias)) saved.input(kLossBias);
  saved.extra("log_sums", {head_extent(node).rows}, DType::kFloat32);
}

// One kernel recomputes each tile and adds it to both gradients: three products.
void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  BackwardBuilder::Kernel kernel{.name = "cut_cross_entropy.backward",
                                 .reads = head_operands(node),
                                 .work = tile_product(node, 3)};
  kernel.reads.push_back(node.input(kLossTargets));
  kernel.reads.push_back(b.saved("log_sums"));
  kernel.reads.push_back(b.output_gradient());
  std::vector<std::pair<std::size_t, Tensor>> gradients;
  for (std::size_t input : {kLossRows, kLossBias, kLossWeight}) {
    if (!b.needs_gradient(input)) continue;
    const Tensor& of = node.input(input);
    const Tensor gradient = b.create("gradient", of.shape, of.dtype);
    kernel.creates.push_back(gradient);
    kernel.work.written += gradient.bytes();
    gradients.emplace_back(input, gradient);
  }
  b.launch(kernel);
  for (const auto& [input, gradient] : gradients)
    b.set_input_gradient(input, gradient);
}

constexpr OperatorFamily kFamily{
    .name = "cut_cross_entropy",
    .summary = "a head and its loss by tiles that no memory holds; keeps the rows and their sums",
    .infer = infer,
    .forward = forward,
    .save = save,
    .backward = backward};

}  // namespace
}  // namespace cut_cross_entropy_detail

const OperatorFamily& cut_cross_entropy_family() {
  return cut_cross_entropy_detail::kFamily;
}

}  // namespace tidemark
