// Losses that training.loss names, under autocast and with policies that replace the head's loss;
// units of ZeRO 3 in models whose stacks own parameters.
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::loss_combinations_test {
namespace {

PointResult simulated(const std::string& text) {
  const PointResult point = simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                                            {.smallest_capacity = false})
                                .front();
  return point;
}

PointResult with_loss(const std::string& loss, const std::string& policies = "",
                      const std::string& precision = "fp16_autocast") {
  return simulated(fmt::format(
      "{{model: {{preset: gpt2, layers: 1, vocab: 512}}, hardware: h100-sxm-80gb, training: "
      "{{sequence: 64, micro_batch: 4, precision: {}, loss: {}}}, policies: [{}]}}",
      precision, loss, policies));
}

// Collectives of one kind in a step.
std::int64_t all_gathers(const PointResult& point) {
  std::int64_t count = 0;
  for (const Communication& used : point.communication) {
    if (used.kind == CollectiveKind::kAllGather) count += used.count;
  }
  return count;
}

PointResult whisper(int layers) {
  return simulated(fmt::format(
      "{{model: {{preset: whisper-tiny, encoder_layers: {}}}, hardware: {{gpu: h100-sxm-80gb, "
      "count: 8}}, training: {{micro_batch: 1}}, policies: [{{zero: {{stage: 3, "
      "max_reuse_distance: 0}}}}]}}",
      layers));
}

}  // namespace

TEST_SUITE("unit") {
  // at::autocast's fp32 list has mse_loss, smooth_l1_loss and huber_loss: the 16-bit logits are
  // copied, and the copy and the fp32 target are kept.
  TEST_CASE("losses of two tensors are computed in fp32 under autocast") {
    const PointResult mse = with_loss("mse");
    for (const char* loss : {"smooth_l1", "huber"}) {
      CAPTURE(std::string(loss));
      const PointResult point = with_loss(loss);
      REQUIRE(point.status == PointStatus::kFits);
      CHECK(point.saved_activations == mse.saved_activations);
    }
    CHECK_THROWS_WITH_AS(with_loss("bce"), doctest::Contains("write bce_with_logits"), UserError);
    CHECK(with_loss("bce", "", "fp32").status == PointStatus::kFits);
  }

  TEST_CASE("a loss of log-probabilities is not replaced by one of logits") {
    for (const char* policy : {"chunked_loss", "fused_loss"}) {
      CAPTURE(std::string(policy));
      CHECK_THROWS_WITH_AS(with_loss("nll", policy),
                           doctest::Contains("write training.loss: cross_entropy"), UserError);
      CHECK(with_loss("cross_entropy", policy).status == PointStatus::kFits);
    }
  }

  // Whisper's positions lie in `encoder` beside its blocks: each block is a unit of its own, which
  // is gathered in forward and in backward.
  TEST_CASE("ZeRO 3 gathers each block of a stack that owns parameters itself") {
    const std::int64_t more = all_gathers(whisper(4)) - all_gathers(whisper(3));
    CHECK(more == 2);
  }
}

}  // namespace tidemark::loss_combinations_test
