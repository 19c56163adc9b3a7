// The tensors that autograd keeps of the losses that training.loss names, beside a result that is a
// parameter and so costs nothing. Measured on PyTorch 1.13.1.
#include "graph/models/losses.hpp"

#include <doctest/doctest.h>

#include "tests/graph/operators/probe.hpp"

namespace tidemark::losses_test {
namespace {

TrainingGraph trained(LossKind kind) {
  ModelBuilder b("probe", DType::kFloat32);
  add_loss(b, b.parameter("x", {64, 100}), kind);
  return probe::train(b.finish(), "torch-1.13-cpu");
}

std::int64_t saved(LossKind kind) {
  return probe::saved_bytes(trained(kind));
}

// Bytes of the inputs: the targets.
std::int64_t target_bytes(LossKind kind) {
  std::int64_t bytes = 0;
  for (const Storage& storage : trained(kind).storages) {
    if (storage.role == Role::kInput) bytes += storage.bytes.count;
  }
  return bytes;
}

constexpr std::int64_t kResult = 4 * 64 * 100;

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("losses of two tensors of one shape keep them both and nothing else") {
    for (const LossKind kind : {LossKind::kMse, LossKind::kSmoothL1, LossKind::kHuber,
                                LossKind::kBce, LossKind::kBceWithLogits, LossKind::kKlDiv}) {
      CAPTURE(kLossNames.at(static_cast<std::size_t>(kind)));
      CHECK(saved(kind) == 0);
      CHECK(target_bytes(kind) == kResult);
    }
  }

  TEST_CASE("l1 is the mean of |prediction - target|, whose difference is kept") {
    CHECK(saved(LossKind::kL1) == kResult);
    CHECK(target_bytes(LossKind::kL1) == kResult);
  }

  TEST_CASE("losses of classes keep log-probabilities, label smoothing three rows of samples") {
    CHECK(saved(LossKind::kCrossEntropy) == kResult + 4);  // and the sum of the weights
    CHECK(saved(LossKind::kNll) == 4);                     // the result itself is a parameter
    // Two masks and the sums over the classes of each sample.
    CHECK(saved(LossKind::kSmoothedCrossEntropy) == kResult + 4 + 64 + 64 + 4 * 64);
    for (const LossKind kind : {LossKind::kNll, LossKind::kSmoothedCrossEntropy})
      CHECK(target_bytes(kind) == 8 * 64);
    CHECK(saved(LossKind::kSoftCrossEntropy) == kResult);
    CHECK(target_bytes(LossKind::kSoftCrossEntropy) == kResult);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("losses of what a file returns say so of a model that is none") {
    for (const LossKind kind : {LossKind::kTriplet, LossKind::kCosineEmbedding}) {
      CAPTURE(kLossNames.at(static_cast<std::size_t>(kind)));
      CHECK_THROWS_WITH_AS(static_cast<void>(trained(kind)),
                           doctest::Contains("outputs of a file in ONNX; this model has one"),
                           UserError);
    }
    CHECK_THROWS_WITH_AS(static_cast<void>(trained(LossKind::kCtc)),
                         doctest::Contains("which a file in ONNX can return"), UserError);
    CHECK(results_of(LossKind::kTriplet) == 3);
    CHECK(results_of(LossKind::kCosineEmbedding) == 2);
    CHECK(results_of(LossKind::kCtc) == 1);
  }

  TEST_CASE("losses of classes say that they take an axis of them") {
    CHECK(takes_classes(LossKind::kNll));
    CHECK(takes_classes(LossKind::kSoftCrossEntropy));
    CHECK_FALSE(takes_classes(LossKind::kHuber));
    CHECK_FALSE(takes_classes(LossKind::kNone));
  }
}

}  // namespace tidemark::losses_test
