#include "graph/operators/communication/vocabulary.hpp"

#include "graph/operators/kernels.hpp"

namespace tidemark {
namespace vocabulary_detail {
namespace {

constexpr std::size_t kIndices = 0;
constexpr std::size_t kTable = 1;  // [rows of this rank, width]

void infer_embedding(Inference& inference) {
  const Tensor& indices = inference.input(kIndices);
  const Tensor& table = inference.input(kTable);
  inference.require(table.shape.rank() == 2, "the weight needs the axes rows and width");
  Shape result = indices.shape;
  result.push_back(table.shape[1]);
  inference.create(result, table.dtype);
}

// masked_input = (input - first).masked_fill(mask, 0); output[mask] = 0.
ForwardKernel forward_embedding(const NodeView& node) {
  const Tensor& out = node.output();
  const Tensor& indices = node.input(kIndices);
  Work work{.op_class = OperatorClass::kEmbedding, .dtype = out.dtype};
  work.read = out.bytes() + indices.bytes() * 3;
  work.written = out.bytes() * 2 + indices.bytes() * 2;
  work.launches = 5;
  return {.work = work};
}

void save_embedding(SavedSet& saved) {
  const Shape& shape = saved.node().input(kIndices).shape;
  saved.extra("own_indices", shape, DType::kInt64);
  saved.extra("mask", shape, DType::kBool);
  saved.input(kTable);
}

// The rows of other ranks are zeroed in a copy of the incoming gradient.
void backward_embedding(BackwardBuilder& b) {
  if (!b.needs_gradient(kTable)) return;
  const Tensor gradient = b.output_gradient();
  const Tensor own = b.saved("own_indices");
  const Tensor masked = b.create_like("masked_gradient", gradient);
  b.launch_elementwise("vocabulary_embedding.mask", {gradient, b.saved("mask")}, masked);
  const Tensor result = b.create_like("weight_gradient", b.node().input(kTable));
  Work work = work_on(OperatorClass::kEmbedding, flops_per(1, gradient), {masked, own}, {});
  work.read += gradient.bytes();
  work.written = result.bytes() + gradient.bytes();
  work.launches = 2;
  b.launch({.name = "embedding.weight_gradient",
            .part = OperatorPart::kWeightGradient,
            .reads = {masked, own},
            .creates = {result},
            .work = work,
            .workspace = b.node().rules().sorts_indices ? own.bytes() * 2 : Bytes(0)});
  b.set_input_gradient(kTable, result);
}

constexpr std::size_t kLogits = 0;   // [samples, classes of this rank]
constexpr std::size_t kMaxima = 1;   // [samples]
constexpr std::size_t kTargets = 2;  // int64 [samples]

void infer_row_maximum(Inference& inference) {
  const Tensor& logits = inference.input(kLogits);
  inference.require(logits.shape.rank() == 2, "needs the axes samples and classes");
  inference.create({logits.shape[0]}, logits.dtype);
}

ForwardKernel forward_row_maximum(const NodeView& node) {
  const Tensor& logits = node.input(kLogits);
  return {.work =
              work_on(OperatorClass::kReduction, flops_per(1, logits), {logits}, {node.output()})};
}

void infer_exponentials(Inference& inference) {
  const Tensor logits = inference.input(kLogits);
  const Shape samples{logits.shape[0]};
  inference.require(
      inference.input(kMaxima).shape == samples && inference.input(kTargets).shape == samples,
      "maxima and targets need one element per sample");
  inference.in_place(kLogits);
  inference.create(samples, logits.dtype);
  inference.create(samples, logits.dtype);
  inference.create(samples, DType::kBool);
  inference.create(samples, DType::kInt64);
}

// Subtraction, the target's logit, exponential and sum: three passes over the logits.
ForwardKernel forward_exponentials(const NodeView& node) {
  const Tensor& logits = node.input(kLogits);
  Work work = work_on(OperatorClass::kElementwise, flops_per(6, logits), {logits, logits, logits},
                      {logits, logits});
  work.launches = 8;
  return {.work = work};
}

constexpr std::size_t kSums = 2;
constexpr std::size_t kMask = 3;
constexpr std::size_t kOwnTargets = 4;

// The probabilities replace the exponentials; the loss is the mean of log(sum) - logit.
void infer_loss(Inference& inference) {
  inference.in_place(kLogits);
  inference.create({}, inference.input(kLogits).dtype);
}

ForwardKernel forward_loss(const NodeView& node) {
  const Tensor& logits = node.input(kLogits);
  Work work = work_on(OperatorClass::kElementwise, flops_per(1, logits), {logits}, {logits});
  work.launches = 4;
  return {.work = work, .temporary = node.input(kSums).bytes()};
}

void save_loss(SavedSet& saved) {
  saved.output(0);
  saved.input(kMask);
  saved.input(kOwnTargets);
}

// The gradient is the saved probabilities less one at the targets, in place, times the incoming.
void backward_loss(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = node.output(0);
  Work work = work_on(OperatorClass::kElementwise, flops_per(2, gradient), {gradient}, {gradient});
  work.launches = 3;
  b.launch({.name = "vocabulary_loss.backward",
            .reads = {b.output_gradient(1), node.input(kMask), node.input(kOwnTargets)},
            .mutates = {gradient},
            .work = work});
  b.set_input_gradient(kLogits, gradient);
}

constexpr OperatorFamily kEmbedding{.name = "vocabulary_embedding",
                                    .summary = "rows of this rank's part of a table",
                                    .infer = infer_embedding,
                                    .forward = forward_embedding,
                                    .save = save_embedding,
                                    .backward = backward_embedding};
constexpr OperatorFamily kRowMaximum{.name = "row_maximum",
                                     .summary = "the largest of each row of logits",
                                     .infer = infer_row_maximum,
                                     .forward = forward_row_maximum,
                                     .save = save_nothing,
                                     .backward = no_backward};
constexpr OperatorFamily kExponentials{
    .name = "exponentials",
    .summary = "exponentials of logits less their maximum, in place, and their sums",
    .infer = infer_exponentials,
    .forward = forward_exponentials,
    .save = save_nothing,
    .backward = pass_gradient};
constexpr OperatorFamily kLoss{
    .name = "vocabulary_loss",
    .summary = "mean cross-entropy of classes that lie on several ranks; keeps probabilities",
    .infer = infer_loss,
    .forward = forward_loss,
    .save = save_loss,
    .backward = backward_loss};

}  // namespace
}  // namespace vocabulary_detail

const OperatorFamily& vocabulary_embedding_family() {
  return vocabulary_detail::kEmbedding;
}
const OperatorFamily& row_maximum_family() {
  return vocabulary_detail::kRowMaximum;
}
const OperatorFamily& exponentials_family() {
  return vocabulary_detail::kExponentials;
}
const OperatorFamily& vocabulary_loss_family() {
  return vocabulary_detail::kLoss;
}

}  // namespace tidemark
