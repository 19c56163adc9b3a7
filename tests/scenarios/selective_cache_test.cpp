// torch.utils.checkpoint's selective policies hold every result that they save, read or not.
#include <set>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/read/scenario.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::selective_cache_test {
namespace {

constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kTokens = 2 * 32;

Scenario scenario(std::string_view training, std::string_view policies) {
  // The peak is the loss: a large vocabulary.
  return decode(fmt::format(
      "model: {{preset: llama-3-8b, layers: {}, width: {}, heads: 4, kv_heads: 4, ffn: 128, vocab: "
      "32768, sequence: 32}}\nhardware: h100-sxm-80gb\nallocator: ideal\n"
      "training: {{micro_batch: 2, precision: bf16, {}}}\npolicies: [{}]\n",
      kLayers, kWidth, training, policies));
}

std::int64_t peak(std::string_view training, std::string_view policies) {
  const Scenario step = scenario(training, policies);
  const PointResult point = simulate(step, build_training(step), {.smallest_capacity = false});
  REQUIRE(point.status == PointStatus::kFits);
  return point.run.live.bytes.count;
}

// The same choice as `save: [linear, attention]`, said the other way round.
std::string recompute_the_others() {
  const TrainedModel model = build_training(scenario("optimizer: sgd", ""));
  std::set<std::string> kinds;
  for (const OperatorId id : model.training.part(PartKind::kForward)) {
    const Operator& op = model.training.operators[id];
    if (model.training.block_of(id) != kNoBlock) kinds.emplace(op.forward_family());
  }
  for (const char* saved : {"", "linear", "attention"})
    kinds.erase(saved);
  return fmt::format("selective: {{recompute: [{}]}}", fmt::join(kinds, ", "));
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("eager code holds the saved results that backward does not read") {
    const std::string others = recompute_the_others();
    // The result of down_proj is added to the residual stream and never read again; that of o_proj
    // is what the second norm is recomputed from.
    const std::int64_t one = kTokens * kWidth * 2;
    const std::int64_t plain = peak("optimizer: sgd", others);
    CHECK(peak("optimizer: sgd", "selective: {save: [linear, attention]}") ==
          plain + kLayers * one);
    // Every second product of q, k, v, o, gate, up and down is recomputed: k, o and up.
    CHECK(peak("optimizer: sgd", "selective: {save: [linear, attention], every_other: [linear]}") ==
          plain + kLayers * (one - 2 * one - kTokens * 128 * 2));
  }

  TEST_CASE("compiled code and a framework without frames hold what is read") {
    const std::string others = recompute_the_others();
    for (const char* training :
         {"optimizer: sgd, framework: ideal", "optimizer: sgd, compile: regional"}) {
      CAPTURE(training);
      if (std::string_view(training).find("compile") != std::string_view::npos) {
        // Kernels are fused there: the kinds of the other list are not those of the model.
        CHECK(peak(training, "selective: {save: [linear, attention]}") <
              peak("optimizer: sgd", "selective: {save: [linear, attention]}"));
        continue;
      }
      CHECK(peak(training, "selective: {save: [linear, attention]}") == peak(training, others));
    }
  }
}

}  // namespace tidemark::selective_cache_test
