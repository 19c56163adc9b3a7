// A head and its cross-entropy as one function under torch.utils.checkpoint:
//
//   forward   logits -> [fp32 logits] -> log-probabilities -> loss     nothing is kept
//   backward  the same again, then the gradients of all of them
#include "graph/operators/losses/chunk_kernels.hpp"
#include "graph/operators/losses/chunked_losses.hpp"

namespace tidemark {
namespace checkpointed_cross_entropy_detail {
namespace {

void infer(Inference& inference) {
  const bool upcasts = inference.attributes().text("loss_dtype") == name_of(DType::kFloat32);
  infer_head_loss(inference, upcasts ? DType::kFloat32 : inference.input(kLossRows).dtype);
}

// The tensors that the function makes, each for the next.
struct Made {
  Tensor logits;
  Tensor scores;  // logits in the loss's type
  Tensor log_probabilities;
};

// Emits the kernels of the function with a builder of forward or of backward. The logits are an
// argument of cross_entropy and live until it returns.
template <class Create, class Launch>
Made run_function(const NodeView& node, const Tensor& loss, const Create& create,
                  const Launch& launch) {
  const Shape shape{head_extent(node).rows, head_extent(node).classes};
  Made made{.logits = create("logits", shape, node.input(kLossRows).dtype)};
  launch(BackwardKernel{.name = "linear",
                        .reads = head_operands(node),
                        .creates = {made.logits},
                        .work = head_product(node, shape[0])});
  made.scores = made.logits;
  if (made.logits.dtype != loss.dtype) {
    made.scores = create("scores", shape, loss.dtype);
    launch(BackwardKernel{
        .name = "cast",
        .reads = {made.logits},
        .creates = {made.scores},
        .work = work_on(OperatorClass::kElementwise, Flops(0), {made.logits}, {made.scores})});
  }
  made.log_probabilities = create("log_probabilities", shape, loss.dtype);
  launch(BackwardKernel{.name = "log_softmax",
                        .reads = {made.scores},
                        .creates = {made.log_probabilities},
                        .work = work_on(OperatorClass::kSoftmax, flops_per(5, made.scores),
                                        {made.scores}, {made.log_probabilities})});
  const Tensor& targets = node.input(kLossTargets);
  const Tensor total_weight = create("total_weight", {}, loss.dtype);
  launch(BackwardKernel{
      .name = "nll_loss",
      .reads = {made.log_probabilities, targets, made.logits, made.scores},
      .creates = {loss, total_weight},
      .work = work_on(OperatorClass::kReduction, flops_per(1, targets), {targets}, {loss})});
  return made;
}

void emit(ForwardBuilder& forward) {
  run_function(
      forward.node(), forward.node().output(),
      [&](std::string_view name, const Shape& shape, DType dtype) {
        return forward.create(name, shape, dtype);
      },
      [&](const BackwardKernel& kernel) { forward.launch(kernel); });
}

// The hooks keep the function's arguments until the last of its nodes has run.
void save(SavedSet& saved) {
  saved.input(kLossRows);
  saved.input(kLossTargets);
}

Tensor launch_loss_backward(BackwardBuilder& b, const Made& made) {
  const Tensor& targets = b.node().input(kLossTargets);
  const Tensor of_probabilities = b.create_like("loss_gradient", made.log_probabilities);
  Work work = work_on(OperatorClass::kMemset, flops_per(1, targets), {targets}, {of_probabilities});
  work.launches = 2;
  b.launch({.name = "nll_loss.backward",
            .reads = {b.output_gradient(), targets, made.log_probabilities},
            .creates = {of_probabilities},
            .work = work});
  const Tensor of_scores = b.create_like("score_gradient", made.scores);
  b.launch({.name = "log_softmax.backward",
            .reads = {of_probabilities, made.log_probabilities},
            .creates = {of_scores},
            .work = work_on(OperatorClass::kSoftmax, flops_per(4, of_scores),
                            {of_probabilities, made.log_probabilities}, {of_scores})});
  if (made.logits.dtype == made.scores.dtype) return of_scores;
  const Tensor of_logits = b.create_like("logit_gradient", made.logits);
  b.launch_elementwise("cast.backward", {of_scores}, of_logits, OperatorClass::kElementwise, 0);
  return of_logits;
}

void launch_head_backward(BackwardBuilder& b, const Tensor& of_logits) {
  const NodeView& node = b.node();
  const std::int64_t rows = head_extent(node).rows;
  Tensor of_weight;
  if (b.needs_gradient(kLossWeight)) {
    of_weight = b.create_like("weight_gradient", node.input(kLossWeight));
    b.launch({.name = "linear.weight_gradient",
              .part = OperatorPart::kWeightGradient,
              .reads = {of_logits, node.input(kLossRows)},
              .creates = {of_weight},
              .work = weight_gradient_product(node, rows)});
  }
  Tensor of_rows;
  if (b.needs_gradient(kLossRows)) {
    of_rows = b.create("input_gradient", node.input(kLossRows).shape, of_logits.dtype);
    b.launch({.name = "linear.input_gradient",
              .part = OperatorPart::kInputGradient,
              .reads = {of_logits, node.input(kLossWeight)},
              .creates = {of_rows},
              .work = row_gradient_product(node, rows)});
  }
  if (b.needs_gradient(kLossBias)) {
    const Tensor of_bias = b.create_like("bias_gradient", node.input(kLossBias));
    b.launch({.name = "linear.bias_gradient",
              .part = OperatorPart::kBiasGradient,
              .reads = {of_logits},
              .creates = {of_bias},
              .work = work_on(OperatorClass::kReduction, flops_per(1, of_logits), {of_logits},
                              {of_bias})});
    b.set_input_gradient(kLossBias, of_bias);
  }
  b.set_input_gradient(kLossRows, of_rows);
  b.set_input_gradient(kLossWeight, of_weight);
}

void backward(BackwardBuilder& b) {
  const Tensor loss = b.create_temporary("loss", {}, b.node().output().dtype);
  const Made made = run_function(
      b.node(), loss,
      [&](std::string_view name, const Shape& shape, DType dtype) {
        return b.create_temporary(name, shape, dtype);
      },
      [&](BackwardKernel kernel) {
        kernel.part = OperatorPart::kRecompute;
        b.launch(kernel);
      });
  launch_head_backward(b, launch_loss_backward(b, made));
}

constexpr OperatorFamily kFamily{
    .name = "checkpointed_cross_entropy",
    .summary = "a head and its loss on a chunk of rows, recomputed in backward; keeps the rows",
    .infer = infer,
    .forward = nullptr,
    .save = save,
    .backward = backward,
    .emit = emit};

}  // namespace
}  // namespace checkpointed_cross_entropy_detail

const OperatorFamily& checkpointed_cross_entropy_family() {
  return checkpointed_cross_entropy_detail::kFamily;
}

}  // namespace tidemark
