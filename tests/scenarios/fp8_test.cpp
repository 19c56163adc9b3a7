// Products in fp8: what TransformerEngine and torchao keep of a linear layer, by their rules.
#include <algorithm>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark {
namespace fp8_test {
namespace {

constexpr std::int64_t kSamples = 64, kIn = 256, kOut = 512;

// Two linear layers behind one without, so that both get a gradient for their input.
PointResult run(const std::string& precision) {
  const std::string text = fmt::format(
      "{{model: {{layers: {{name: chain, inputs: {{x: [batch, {0}]}}, layers: [{{linear: {0}}}, "
      "{{linear: {1}}}, {{linear: {0}}}]}}}}, hardware: h100-sxm-80gb, allocator: ideal, training: "
      "{{micro_batch: {2}, loss: mse, optimizer: sgd, precision: {3}}}}}",
      kIn, kOut, kSamples, precision);
  const PointResult point = simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                                            {.smallest_capacity = false})
                                .front();
  REQUIRE_MESSAGE(point.status == PointStatus::kFits, point.error);
  return point;
}

std::int64_t saved(const std::string& precision) {
  return run(precision).saved_activations.count;
}

}  // namespace

TEST_SUITE("unit") {
  // The first layer's input has no gradient: it keeps its input's copy and no weight. The second
  // keeps both. The third makes the output and stays in bf16: it keeps its input, and the loss both
  // of its operands.
  TEST_CASE("a layer keeps a byte per element of its input and two per weight") {
    const std::int64_t loss_and_head = 2 * kSamples * (kOut + kIn);
    const std::int64_t inputs = kSamples * kIn + kSamples * kIn;
    const std::int64_t weight = kIn * kOut;
    const auto scaled = [](std::int64_t n, std::int64_t block, std::int64_t bytes) {
      return n + (n + block - 1) / block * bytes;
    };
    CHECK(saved("fp8_mixed") == loss_and_head + inputs + 2 * weight);
    CHECK(saved("{fp8_mixed: {recipe: current}}") == loss_and_head + inputs + 2 * weight);
    CHECK(saved("{fp8_mixed: {recipe: mxfp8}}") ==
          loss_and_head + 2 * scaled(kSamples * kIn, 32, 1) + 2 * scaled(weight, 32, 1));
    CHECK(saved("{fp8_mixed: {recipe: blockwise}}") ==
          loss_and_head + 2 * scaled(kSamples * kIn, 128, 4) + 2 * scaled(weight, 128 * 128, 4));
    // torchao keeps what bf16 keeps.
    CHECK(saved("{fp8_mixed: {recipe: rowwise}}") == saved("bf16_mixed"));
  }

  TEST_CASE("delayed scaling keeps 20,500 bytes of history per layer") {
    CHECK((run("fp8_mixed").buffers - run("{fp8_mixed: {recipe: current}}").buffers).count ==
          2 * 20'500);
  }

  TEST_CASE("layers whose features are no multiple of 16 are named, since they stay in bf16") {
    const auto warnings_of = [](int width) {
      const std::string text = fmt::format(
          "{{model: {{preset: gpt, layers: 1, width: {}, heads: 4, vocab: 256}}, hardware: "
          "h100-sxm-80gb, training: {{sequence: 32, precision: fp8_mixed}}}}",
          width);
      const PointResult point = simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                                                {.smallest_capacity = false})
                                    .front();
      return fmt::format("{}", fmt::join(point.warnings, "\n"));
    };
    CHECK(warnings_of(72).find("4 of 4 linear layers are not computed in fp8") !=
          std::string::npos);
    CHECK(warnings_of(64).find("fp8") == std::string::npos);
  }

  TEST_CASE("a product in the model's own forward, behind which others round, runs in fp8, too") {
    const std::string text =
        "{model: {preset: gpt, layers: 2, width: 64, heads: 4, vocab: 256, sequence: 32}, "
        "hardware: "
        "h100-sxm-80gb, training: {sequence: 32, precision: fp8_mixed}, policies: [{qat: {weights: "
        "int8, activations: int8}}]}";
    const PointResult point = simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                                              {.smallest_capacity = false})
                                  .front();
    CHECK_MESSAGE(point.status == PointStatus::kFits, point.error);
  }

  TEST_CASE("large products gain from fp8, and an unknown recipe is refused") {
    const auto step = [](const std::string& precision) {
      const std::string text = fmt::format(
          "{{model: {{preset: llama-3-8b, layers: 2}}, hardware: h100-sxm-80gb, training: "
          "{{sequence: 4096, precision: {}}}}}",
          precision);
      return simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                             {.smallest_capacity = false})
          .front()
          .run.phase[0];
    };
    CHECK(step("fp8_mixed") < step("bf16_mixed"));
    CHECK_THROWS_WITH((void)step("{fp8_mixed: {recipe: delay}}"), doctest::Contains("delayed"));
  }

  TEST_CASE("mxfp8 is noted on devices whose library refuses it") {
    const auto noted = [](const std::string& gpu, const std::string& recipe) {
      const std::string text = fmt::format(
          "{{model: {{preset: llama-3-8b, layers: 1}}, hardware: {}, training: {{sequence: 64, "
          "precision: {{fp8_mixed: {{recipe: {}}}}}}}}}",
          gpu, recipe);
      const std::vector<PointResult> points = simulate_points(
          parse_document(text, "s.yaml"), environment(), 1, {.smallest_capacity = false});
      return std::any_of(points[0].warnings.begin(), points[0].warnings.end(),
                         [](const std::string& warning) {
                           return warning.find("refuses the recipe mxfp8") != std::string::npos;
                         });
    };
    CHECK(noted("h100-sxm-80gb", "mxfp8"));
    CHECK(noted("h200-sxm-141gb", "mxfp8"));
    CHECK(noted("rtx-5090-32gb", "mxfp8"));
    CHECK_FALSE(noted("h100-sxm-80gb", "delayed"));
    CHECK_FALSE(noted("b200-sxm-192gb", "mxfp8"));
    CHECK_FALSE(noted("gb200", "mxfp8"));
  }
}

}  // namespace fp8_test
}  // namespace tidemark
