#include "graph/models/losses.hpp"

#include <string_view>

namespace tidemark {
namespace losses_detail {
namespace {

// Logits or log-probabilities as rows of classes where they have three axes.
TensorId rows_of_classes(ModelBuilder& b, TensorId x) {
  return b.shape(x).rank() == 3 ? b.view(x, {-1, b.shape(x)[-1]}) : x;
}

TensorId targets_of_classes(ModelBuilder& b, TensorId scores) {
  Shape shape;
  for (int axis = 0; axis < b.shape(scores).rank(); ++axis) {
    if (axis != 1) shape.push_back(b.shape(scores)[axis]);
  }
  return b.input("targets", shape, DType::kInt64);
}

TensorId targets_like(ModelBuilder& b, TensorId x) {
  return b.input("targets", b.shape(x), b.tensor(x).dtype);
}

TensorId log_probabilities(ModelBuilder& b, TensorId logits) {
  TensorId scores = rows_of_classes(b, logits);
  if (bits_of(b.tensor(scores).dtype) < bits_of(DType::kFloat32))
    scores = b.cast(scores, DType::kFloat32);
  return b.add("log_softmax", {scores}, {{"axis", std::int64_t{1}}});
}

// cross_entropy_loss_label_smoothing in LossNLL.cpp, whose products are with numbers of C++.
TensorId smoothed_cross_entropy(ModelBuilder& b, TensorId logits) {
  const Attributes inside{{"inside_operator", std::int64_t{1}}};
  const TensorId scores = log_probabilities(b, logits);
  const TensorId targets = targets_of_classes(b, scores);
  const TensorId likelihood = b.add("nll_loss", {scores, targets});
  const TensorId smooth = b.add("smoothing_loss", {scores, targets});
  return b.add("add", {b.add("scale", {likelihood}, inside), b.add("scale", {smooth}, inside)});
}

// cross_entropy_loss_prob_target: -(log_probabilities * target).sum() / samples.
TensorId soft_cross_entropy(ModelBuilder& b, TensorId logits) {
  const TensorId scores = log_probabilities(b, logits);
  const TensorId products = b.multiply(scores, targets_like(b, scores));
  const TensorId negative = b.add("neg", {b.add("sum", {products})});
  return b.add("scale", {negative}, {{"inside_operator", std::int64_t{1}}});
}

// (xlogy(target, target) - target * log_probabilities).mean()
TensorId kl_div(ModelBuilder& b, TensorId x) {
  const TensorId targets = targets_like(b, x);
  const TensorId entropy = b.add("log", {targets});
  return b.add("mean", {b.add("sub", {entropy, b.multiply(targets, x)})});
}

// (prediction - target).abs().mean()
TensorId l1_loss(ModelBuilder& b, TensorId x) {
  const TensorId difference = b.add("sub", {x, targets_like(b, x)});
  return b.add("mean", {b.add("abs", {difference})});
}

TensorId of_family(ModelBuilder& b, TensorId x, std::string_view family) {
  return b.add(family, {x, targets_like(b, x)});
}

TensorId nll_loss(ModelBuilder& b, TensorId x) {
  const TensorId scores = rows_of_classes(b, x);
  return b.add("nll_loss", {scores, targets_of_classes(b, scores)});
}

}  // namespace
}  // namespace losses_detail

bool takes_classes(LossKind kind) {
  return kind == LossKind::kCrossEntropy || kind == LossKind::kSmoothedCrossEntropy ||
         kind == LossKind::kSoftCrossEntropy || kind == LossKind::kNll;
}

void add_loss(ModelBuilder& builder, TensorId result, LossKind kind, bool narrow) {
  using namespace losses_detail;  // NOLINT: this function chooses among them
  ModelBuilder& b = builder;
  if (kind != LossKind::kNone && kind != LossKind::kCrossEntropy && kind != LossKind::kMse)
    b.set_output(result);
  switch (kind) {
    case LossKind::kNone:
      return;
    case LossKind::kCrossEntropy:
      return b.cross_entropy_loss(result, narrow);
    case LossKind::kMse:
      return b.mse_loss(result);
    case LossKind::kSmoothedCrossEntropy:
      return b.set_loss(smoothed_cross_entropy(b, result));
    case LossKind::kSoftCrossEntropy:
      return b.set_loss(soft_cross_entropy(b, result));
    case LossKind::kNll:
      return b.set_loss(nll_loss(b, result));
    case LossKind::kL1:
      return b.set_loss(l1_loss(b, result));
    case LossKind::kSmoothL1:
      return b.set_loss(of_family(b, result, "smooth_l1_loss"));
    case LossKind::kHuber:
      return b.set_loss(of_family(b, result, "huber_loss"));
    case LossKind::kBce:
      return b.set_loss(of_family(b, result, "bce_loss"));
    case LossKind::kBceWithLogits:
      return b.set_loss(of_family(b, result, "bce_with_logits_loss"));
    case LossKind::kKlDiv:
      return b.set_loss(kl_div(b, result));
  }
}

}  // namespace tidemark
