// torch.nn.functional.ctc_loss before its reduction: one number for each sample.
#include "graph/operators/kernels.hpp"
#include "graph/operators/registry.hpp"

namespace tidemark {
namespace ctc_loss_family_detail {

constexpr std::size_t kLogProbabilities = 0;  // [steps, samples, classes]
constexpr std::size_t kTargets = 1;           // [samples, labels], int64

void infer(Inference& inference) {
  const Tensor& scores = inference.input(kLogProbabilities);
  const Tensor& targets = inference.input(kTargets);
  inference.require(scores.shape.rank() == 3,
                    "log-probabilities need the axes steps, samples and classes");
  inference.require(targets.shape.rank() == 2 && targets.shape[0] == scores.shape[1],
                    "targets need the axes samples and labels");
  inference.create({scores.shape[1]}, scores.dtype);
}

// Probabilities of every step and every place of a target with blanks between its labels
// (LossCTC.cpp): log_alpha in forward, log_beta in backward.
Shape places(const NodeView& node) {
  const Shape& scores = node.input(kLogProbabilities).shape;
  return {scores[1], scores[0], 2 * node.input(kTargets).shape[1] + 1};
}

ForwardKernel forward(const NodeView& node) {
  const Tensor& scores = node.input(kLogProbabilities);
  Work work = work_on(OperatorClass::kReduction, flops_per(1, scores),
                      {scores, node.input(kTargets)}, {node.output()});
  const Shape made = places(node);
  work.written += bytes_of(scores.dtype, Elements(made[0] * made[1] * made[2]));
  return {.work = work};
}

void save(SavedSet& saved) {
  saved.input(kLogProbabilities);
  saved.input(kTargets);
  saved.extra("log_alpha", places(saved.node()), saved.node().output().dtype);
  saved.output();
}

void backward(BackwardBuilder& b) {
  const NodeView& node = b.node();
  const Tensor gradient = b.output_gradient();
  const Tensor& scores = node.input(kLogProbabilities);
  const Tensor alpha = b.saved("log_alpha");
  const Tensor result = b.create_like("input_gradient", scores);
  Work work = work_on(OperatorClass::kReduction, flops_per(3, scores),
                      {gradient, scores, node.input(kTargets), node.output(), alpha}, {result});
  b.launch({.name = "ctc_loss.backward",
            .reads = {gradient, scores, node.input(kTargets), node.output(), alpha},
            .creates = {result},
            .work = work,
            .workspace = alpha.bytes()});
  b.set_input_gradient(kLogProbabilities, result);
}

constexpr OperatorFamily kFamilies[] = {
    {.name = "ctc_loss",
     .summary = "connectionist temporal classification; keeps log-probabilities and log_alpha",
     .infer = infer,
     .forward = forward,
     .save = save,
     .backward = backward},
};

}  // namespace ctc_loss_family_detail

std::span<const OperatorFamily> ctc_loss_families() {
  return ctc_loss_family_detail::kFamilies;
}

}  // namespace tidemark
