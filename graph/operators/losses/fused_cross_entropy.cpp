// A head and its cross-entropy in one function that makes the gradients in forward, chunk by chunk:
//
//   logits = rows W^T           [rows, classes]
//   logits <- softmax(logits) - one_hot(targets), in place: their own gradient
//   gradient of rows[chunk] = logits W;  gradient of W += logits^T rows[chunk]
//
// so that one chunk of logits exists at a time and backward has nothing to compute.
#include <algorithm>

#include "graph/operators/losses/chunk_kernels.hpp"
#include "graph/operators/losses/chunked_losses.hpp"

namespace tidemark {
namespace fused_cross_entropy_detail {
namespace {

void infer(Inference& inference) {
  infer_head_loss(inference, DType::kFloat32);
}

bool makes_gradients(const NodeView& node) {
  return node.output().requires_grad;
}

void save(SavedSet& saved) {
  const NodeView& node = saved.node();
  if (node.needs_gradient(kLossRows)) {
    saved.extra("input_gradient", node.input(kLossRows).shape, node.input(kLossRows).dtype);
  }
  if (node.needs_gradient(kLossWeight)) {
    saved.extra("weight_gradient", node.input(kLossWeight).shape, node.input(kLossWeight).dtype);
  }
  if (node.needs_gradient(kLossBias)) {
    saved.extra("bias_gradient", node.input(kLossBias).shape, node.input(kLossBias).dtype);
  }
}

// The state of the loop over chunks: the variables of the one before live until they are assigned.
class Chunks {
 public:
  explicit Chunks(ForwardBuilder& forward) : f_(forward), node_(forward.node()) {}

  void run() {
    allocate();
    const std::int64_t step = node_.attributes().integer("rows", 1);
    const std::int64_t all = head_extent(node_).rows;
    for (std::int64_t at = 0; at < all; at += step)
      chunk(std::min(step, all - at));
    f_.launch({.name = "sum_losses",
               .reads = {losses_},
               .creates = {node_.output()},
               .work = work_on(OperatorClass::kReduction, flops_per(1, losses_), {losses_},
                               {node_.output()})});
  }

 private:
  // One loss per row, and zeros for the gradients.
  void allocate() {
    losses_ = f_.create("losses", {head_extent(node_).rows}, DType::kFloat32);
    BackwardKernel zeros{.name = "zeros", .creates = {losses_}};
    for (const auto& [input, name] : kGradients) {
      if (node_.needs_gradient(input)) zeros.creates.push_back(f_.saved(name));
    }
    zeros.work = work_on(OperatorClass::kMemset, Flops(0), {}, {});
    for (const Tensor& tensor : zeros.creates)
      zeros.work.written += tensor.bytes();
    zeros.work.launches = static_cast<int>(zeros.creates.size());
    f_.launch(zeros);
  }

  void chunk(std::int64_t rows) {
    const Tensor logits =
        f_.create("logits", {rows, head_extent(node_).classes}, node_.input(kLossRows).dtype);
    std::vector<Tensor> reads = head_operands(node_);
    reads.insert(reads.end(), previous_.begin(), previous_.end());
    f_.launch(
        {.name = "linear", .reads = reads, .creates = {logits}, .work = head_product(node_, rows)});
    if (node_.attributes().flag("adds_products")) {
      in_one_kernel(logits);
    } else {
      in_steps(logits, rows);
    }
    if (makes_gradients(node_)) gradients(logits, rows);
  }

  // Liger's kernel: losses and gradients in two passes over the logits.
  void in_one_kernel(const Tensor& logits) {
    f_.launch({.name = "cross_entropy",
               .reads = {node_.input(kLossTargets)},
               .mutates = {logits, losses_},
               .work = work_on(OperatorClass::kSoftmax, flops_per(8, logits), {logits, logits},
                               {logits})});
    previous_ = {logits};
  }

  // torch.logsumexp, the losses, then softmax and the ones of the targets in place.
  void in_steps(const Tensor& logits, std::int64_t rows) {
    const Tensor maxima = f_.create("maxima", {rows, 1}, logits.dtype);
    const Tensor powers = f_.create("powers", logits.shape, logits.dtype);
    f_.launch({.name = "exp",
               .reads = {logits},
               .creates = {maxima, powers},
               .work = work_on(OperatorClass::kElementwise, flops_per(3, logits), {logits, logits},
                               {powers})});
    const Tensor sums = f_.create("log_sums", {rows}, logits.dtype);
    std::vector<Tensor> reads{powers, maxima};
    if (previous_.size() > 1) reads.push_back(previous_.back());
    f_.launch({.name = "logsumexp",
               .reads = reads,
               .creates = {sums},
               .work = work_on(OperatorClass::kReduction, flops_per(1, logits), {powers}, {sums})});
    Work work = work_on(OperatorClass::kElementwise, flops_per(3, logits), {logits, logits},
                        {logits, logits});
    work.launches = 5;
    f_.launch({.name = "softmax",
               .reads = {sums, node_.input(kLossTargets)},
               .mutates = {logits, losses_},
               .work = work});
    previous_ = {logits, sums};
  }

  void gradients(const Tensor& logits, std::int64_t rows) {
    if (node_.needs_gradient(kLossRows)) {
      f_.launch({.name = "linear.input_gradient",
                 .reads = {logits, node_.input(kLossWeight)},
                 .mutates = {f_.saved("input_gradient")},
                 .work = row_gradient_product(node_, rows)});
    }
    if (node_.needs_gradient(kLossWeight)) weight_gradient(logits, rows);
    if (node_.needs_gradient(kLossBias)) {
      f_.launch({.name = "linear.bias_gradient",
                 .reads = {logits},
                 .mutates = {f_.saved("bias_gradient")},
                 .work = work_on(OperatorClass::kReduction, flops_per(1, logits), {logits}, {})});
    }
  }

  // Liger adds a product, converted to fp32, to the sum; addmm accumulates by itself.
  void weight_gradient(const Tensor& logits, std::int64_t rows) {
    const Tensor sum = f_.saved("weight_gradient");
    const Work work = weight_gradient_product(node_, rows);
    if (!node_.attributes().flag("adds_products")) {
      f_.launch({.name = "linear.weight_gradient",
                 .reads = {logits, node_.input(kLossRows)},
                 .mutates = {sum},
                 .work = work});
      return;
    }
    Tensor product = f_.create("weight_product", sum.shape, sum.dtype);
    f_.launch({.name = "linear.weight_gradient",
               .reads = {logits, node_.input(kLossRows)},
               .creates = {product},
               .work = work});
    if (sum.dtype != DType::kFloat32) {
      const Tensor wide = f_.create("weight_product", sum.shape, DType::kFloat32);
      f_.launch({.name = "cast",
                 .reads = {product},
                 .creates = {wide},
                 .work = work_on(OperatorClass::kElementwise, Flops(0), {product}, {wide})});
      product = wide;
    }
    f_.launch(
        {.name = "add",
         .reads = {product, logits},
         .mutates = {sum},
         .work = work_on(OperatorClass::kElementwise, flops_per(1, sum), {product, sum}, {sum})});
  }

  struct Gradient {
    std::size_t input;
    std::string_view name;
  };
  static constexpr Gradient kGradients[] = {{kLossRows, "input_gradient"},
                                            {kLossWeight, "weight_gradient"},
                                            {kLossBias, "bias_gradient"}};
  ForwardBuilder& f_;
  const NodeView& node_;
  Tensor losses_;
  std::vector<Tensor> previous_;  // the last chunk's logits, and their log-sums
};

void emit(ForwardBuilder& forward) {
  Chunks(forward).run();
}

// The gradients are multiplied by the incoming one in place, unless that is the 1 that backward
// starts from.
void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const TensorId loss = node.graph().loss;
  const bool is_root = loss.valid() && node.graph().nodes[node.id()].outputs.front() == loss;
  BackwardBuilder::Kernel kernel{.name = "fused_cross_entropy.backward",
                                 .reads = {b.output_gradient()}};
  if (b.needs_gradient(kLossRows)) kernel.mutates.push_back(b.saved("input_gradient"));
  if (b.needs_gradient(kLossWeight)) kernel.mutates.push_back(b.saved("weight_gradient"));
  if (b.needs_gradient(kLossBias)) kernel.mutates.push_back(b.saved("bias_gradient"));
  if (!is_root) {
    kernel.work.op_class = OperatorClass::kElementwise;
    for (const Tensor& gradient : kernel.mutates) {
      kernel.work.read += gradient.bytes();
      kernel.work.written += gradient.bytes();
    }
  }
  b.launch(kernel);
  if (b.needs_gradient(kLossRows)) b.set_input_gradient(kLossRows, b.saved("input_gradient"));
  if (b.needs_gradient(kLossBias)) b.set_input_gradient(kLossBias, b.saved("bias_gradient"));
  if (b.needs_gradient(kLossWeight)) b.set_input_gradient(kLossWeight, b.saved("weight_gradient"));
}

constexpr OperatorFamily kFamily{
    .name = "fused_cross_entropy",
    .summary = "a head and its loss by chunks of rows; keeps gradients that it makes in forward",
    .infer = infer,
    .forward = nullptr,
    .save = save,
    .backward = backward,
    .emit = emit};

}  // namespace
}  // namespace fused_cross_entropy_detail

const OperatorFamily& fused_cross_entropy_family() {
  return fused_cross_entropy_detail::kFamily;
}

}  // namespace tidemark
