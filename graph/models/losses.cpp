#include "graph/models/losses.hpp"

#include <string_view>

#include <fmt/format.h>

#include "graph/core/errors.hpp"

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

// Autocast lists functions that are several operators here: it converts their arguments. Those that
// read the arguments, and the last one, say so (policies/rewrite/autocast.cpp).
Attributes reads_converted(Attributes attributes = {}) {
  attributes.set("reads_converted", std::int64_t{1});
  return attributes;
}
Attributes ends_call() {
  return {{"ends_converted_call", std::int64_t{1}}};
}

// (xlogy(target, target) - target * log_probabilities).mean()
TensorId kl_div(ModelBuilder& b, TensorId x) {
  const TensorId targets = targets_like(b, x);
  const TensorId entropy = b.add("log", {targets});
  const TensorId products = b.add("mul", {targets, x}, reads_converted());
  return b.add("mean", {b.add("sub", {entropy, products})}, ends_call());
}

// (prediction - target).abs().mean()
TensorId l1_loss(ModelBuilder& b, TensorId x) {
  const TensorId difference = b.add("sub", {x, targets_like(b, x)}, reads_converted());
  return b.add("mean", {b.add("abs", {difference})}, ends_call());
}

TensorId of_family(ModelBuilder& b, TensorId x, std::string_view family) {
  return b.add(family, {x, targets_like(b, x)});
}

TensorId nll_loss(ModelBuilder& b, TensorId x) {
  const TensorId scores = rows_of_classes(b, x);
  return b.add("nll_loss", {scores, targets_of_classes(b, scores)});
}

// (x * y).sum(-1)
TensorId dot(ModelBuilder& b, TensorId x, TensorId y) {
  const TensorId products = b.add("mul", {x, y}, reads_converted());
  return b.add("sum", {products}, {{"axes", std::vector<std::int64_t>{-1}}});
}

// cosine_embedding_loss in Loss.cpp: 1 - cos where the target is 1, max(0, cos - margin) where it
// is -1.
TensorId cosine_embedding(ModelBuilder& b, TensorId x, TensorId y) {
  const Attributes inside{{"inside_operator", std::int64_t{1}}};
  const TensorId product = dot(b, x, y);
  const TensorId left = b.add("add_scalar", {dot(b, x, x)}, inside);
  const TensorId right = b.add("add_scalar", {dot(b, y, y)}, inside);
  const TensorId lengths = b.add("sqrt", {b.multiply(left, right)});
  const TensorId cosine = b.add("div", {product, lengths});
  const TensorId targets = b.input("targets", b.shape(cosine), b.tensor(x).dtype);
  const TensorId same = b.add("neg", {cosine});
  const TensorId other = b.add("clamp", {b.add("add_scalar", {cosine}, inside)},
                               {{"in_place", std::int64_t{1}}, {"bounds", std::int64_t{1}}});
  return b.add("mean",
               {b.add("add", {b.add("masked_fill", {same, targets}),
                              b.add("masked_fill", {other, targets})})},
               ends_call());
}

// pairwise_distance: the norm of x - y + 1e-6 over the last axis.
TensorId distance(ModelBuilder& b, TensorId x, TensorId y) {
  const TensorId difference = b.add("add_scalar", {b.add("sub", {x, y}, reads_converted())},
                                    {{"inside_operator", std::int64_t{1}}});
  return b.add("norm", {difference}, {{"axes", std::vector<std::int64_t>{-1}}});
}

// triplet_margin_loss in Loss.cpp: max(0, margin + |anchor - positive| - |anchor - negative|).
TensorId triplet(ModelBuilder& b, std::span<const TensorId> results) {
  const TensorId positive = distance(b, results[0], results[1]);
  const TensorId negative = distance(b, results[0], results[2]);
  const TensorId with_margin =
      b.add("add_scalar", {positive}, {{"inside_operator", std::int64_t{1}}});
  const TensorId difference = b.add("sub", {with_margin, negative});
  return b.add("mean", {b.add("clamp", {difference}, {{"bounds", std::int64_t{1}}})}, ends_call());
}

// ctc_loss in LossCTC.cpp: each sample's loss over the length of its target, and their mean.
TensorId ctc(ModelBuilder& b, TensorId scores, std::int64_t labels) {
  const Shape shape = b.shape(scores);
  if (shape.rank() != 3) {
    throw UserError({}, "training.loss",
                    "ctc takes log-probabilities with the axes steps, samples and classes");
  }
  const TensorId targets = b.input("targets", {shape[1], labels}, DType::kInt64);
  const TensorId loss = b.add("ctc_loss", {scores, targets});
  const TensorId lengths = b.add_many("zeros", {},
                                      {{"shape", std::vector<std::int64_t>{shape[1]}},
                                       {"dtype", std::string(name_of(b.tensor(scores).dtype))}})[0];
  const TensorId least = b.add("clamp", {lengths}, {{"bounds", std::int64_t{1}}});
  return b.add("mean", {b.add("div", {loss, least})});
}

}  // namespace
}  // namespace losses_detail

std::size_t results_of(LossKind kind) {
  if (kind == LossKind::kTriplet) return 3;
  return kind == LossKind::kCosineEmbedding ? 2 : 1;
}

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
    case LossKind::kCosineEmbedding:
    case LossKind::kTriplet:
      throw UserError({}, "training.loss",
                      fmt::format("{} compares {} outputs of a file in ONNX; this model has one",
                                  kLossNames.at(static_cast<std::size_t>(kind)), results_of(kind)));
    case LossKind::kCtc:
      throw UserError({}, "training.loss",
                      "ctc takes log-probabilities [steps, samples, classes], which a file in ONNX "
                      "can return and no preset does");
  }
}

void add_loss(ModelBuilder& builder, std::span<const TensorId> results,
              const ModelOptions& options) {
  using namespace losses_detail;  // NOLINT: this function chooses among them
  ModelBuilder& b = builder;
  switch (options.loss) {
    case LossKind::kCosineEmbedding:
      b.set_output(results[0]);
      return b.set_loss(cosine_embedding(b, results[0], results[1]));
    case LossKind::kTriplet:
      b.set_output(results[0]);
      return b.set_loss(triplet(b, results));
    case LossKind::kCtc:
      if (!options.target_length) {
        throw UserError({}, "training.loss",
                        "ctc needs the labels of a sample; add training.target_length: 40");
      }
      b.set_output(results[0]);
      return b.set_loss(ctc(b, results[0], *options.target_length));
    default:
      return add_loss(b, results[0], options.loss);
  }
}

}  // namespace tidemark
