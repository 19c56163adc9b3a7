// Gradients that are sent in fewer bytes: what the communication hooks send and keep.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/read/scenario.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::compress_gradients_test {
namespace {

struct Sent {
  std::int64_t bytes = 0;    // communicated in a step
  std::int64_t buckets = 0;  // persistent bytes of buckets and of what hooks keep
  PointResult point;
};

Sent sent(std::string_view policies, std::string_view training = "accumulate: 1") {
  const Scenario step = decode(
      fmt::format("model: {{preset: gpt, layers: 2, width: 64, heads: 4, vocab: 256, sequence: "
                  "32}}\nhardware: {{gpu: a100-sxm-80gb, count: 4}}\nallocator: ideal\n"
                  "training: {{precision: fp32, attention: math, {}}}\npolicies: [{}]\n",
                  training, policies));
  const TrainedModel model = build_training(step);
  Sent result{.point = simulate(step, model, {.smallest_capacity = false})};
  for (const Communication& used : result.point.communication)
    result.bytes += used.bytes.count;
  for (const Storage& storage : model.training.storages) {
    if (storage.role == Role::kGradientBucket && storage.persistent)
      result.buckets += storage.bytes.count;
  }
  return result;
}

// Elements that PowerSGD sends of each parameter, from the shapes alone.
std::int64_t low_rank_elements(std::int64_t rank) {
  const Scenario step = decode(
      "model: {preset: gpt, layers: 2, width: 64, heads: 4, vocab: 256, sequence: 32}\n"
      "hardware: a100-sxm-80gb\ntraining: {precision: fp32}\n");
  std::int64_t elements = 0;
  for (const Parameter& parameter : build_training(step).training.parameters) {
    const std::int64_t all = parameter.elements.count;
    const std::int64_t n = parameter.shape.rank() > 1 ? parameter.shape[0] : 0;
    const std::int64_t factors = n > 0 ? (n + all / n) * std::min({rank, n, all / n}) : all;
    elements += n > 0 && 2 * factors < all ? factors : all;
  }
  return elements;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a 16-bit copy of a bucket halves what is sent and stays for nobody") {
    const Sent plain = sent("");
    for (const std::string_view kind : {"bf16", "fp16"}) {
      for (const std::string_view view : {"", ", data_parallel: {gradient_as_bucket_view: true}"}) {
        const Sent half = sent(fmt::format("compress_gradients: {{kind: {}}}{}", kind, view));
        CHECK(half.bytes * 2 == plain.bytes);
        CHECK(half.buckets == plain.buckets);
      }
    }
  }

  TEST_CASE("PowerSGD sends factors and keeps them with the error of every bucket") {
    const Sent plain = sent("");
    for (const std::int64_t rank : {1, 4}) {
      const Sent low = sent(fmt::format("compress_gradients: {{kind: powersgd, rank: {}}}", rank));
      CHECK(low.bytes == 4 * low_rank_elements(rank));
      const Sent without = sent(fmt::format(
          "compress_gradients: {{kind: powersgd, rank: {}, error_feedback: false}}", rank));
      CHECK(without.bytes == low.bytes);
      CHECK(low.buckets - without.buckets == plain.bytes);  // the error: one more gradient
      CHECK(without.buckets > plain.buckets);
    }
  }

  TEST_CASE("signs take a bit per element each way and the errors of both ends") {
    const Sent plain = sent("");
    const Sent signs = sent("compress_gradients: {kind: onebit}");
    const std::int64_t elements = plain.bytes / 4;
    CHECK(signs.bytes >= elements / 4);  // a bit to the server and one back
    CHECK(signs.bytes <= elements / 4 + 64);
    // Four ranks: a whole error and a quarter of one in fp32.
    CHECK(signs.buckets - plain.buckets >= elements * 5);
    CHECK(signs.buckets - plain.buckets <= elements * 5 + 64);
  }

  TEST_CASE("hooks go with accumulation and clipping, and say when they save nothing") {
    const Sent several = sent("compress_gradients: {kind: powersgd}",
                              "accumulate: 3, clip_grad_norm: 1.0, optimizer: sgd");
    CHECK(several.point.status == PointStatus::kFits);
    CHECK(several.bytes == 4 * low_rank_elements(1));  // the last micro-batch communicates
    const auto warned = [](const Sent& result) {
      const auto& all = result.point.warnings;
      return std::any_of(all.begin(), all.end(), [](const std::string& warning) {
        return warning.find("saves no memory") != std::string::npos;
      });
    };
    CHECK(warned(several));
    CHECK_FALSE(warned(sent("")));
    CHECK_THROWS_WITH_AS(sent("compress_gradients: {kind: bf16}, zero: {stage: 2}"),
                         doctest::Contains("another policy reduces"), UserError);
    CHECK_THROWS_WITH_AS(sent("compress_gradients: {kind: bf16, rank: 2}"),
                         doctest::Contains("only kind: powersgd"), UserError);
  }
}

}  // namespace tidemark::compress_gradients_test
