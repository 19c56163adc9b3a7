// Differences of a step that Megatron-LM runs: the loss in place, the buffer of gradients.
#include <algorithm>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/read/scenario.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::megatron_test {
namespace {

constexpr std::int64_t kVocabulary = 65536;
constexpr std::int64_t kTokens = 64;  // 2 samples of 32

Scenario scenario(int count, std::string_view training, std::string_view policies) {
  return decode(fmt::format(
      "model: {{preset: gpt, layers: 1, width: 16, heads: 2, vocab: {}, sequence: 32}}\n"
      "hardware: {{gpu: a100-sxm-80gb, count: {}}}\nallocator: ideal\n"
      "training: {{micro_batch: 2, attention: flash, {}}}\npolicies: [{}]\n",
      kVocabulary, count, training, policies));
}

bool overwrites_logits(int count, std::string_view training, std::string_view policies) {
  const TrainedModel model = build_training(scenario(count, training, policies));
  return std::any_of(model.training.operators.begin(), model.training.operators.end(),
                     [](const Operator& op) { return op.name == "vocabulary_loss"; });
}

PointResult simulated(int count, std::string_view training, std::string_view policies) {
  const Scenario step = scenario(count, training, policies);
  return simulate(step, build_training(step), {.smallest_capacity = false});
}

// Bytes that forward and backward add to what stays between steps.
std::int64_t added(const PointResult& point) {
  return std::max(point.run.phase_live_without_workspace[0].bytes.count,
                  point.run.phase_live_without_workspace[1].bytes.count) -
         point.run.between_steps.count;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the loss follows from the system that trains the model, unless it is named") {
    constexpr const char* kPlain = "precision: bf16_mixed";
    constexpr const char* kMain = "precision: bf16_mixed, gradient_dtype: fp32";
    CHECK_FALSE(overwrites_logits(2, kPlain, ""));
    CHECK(overwrites_logits(2, kPlain, "distributed_optimizer"));
    CHECK(overwrites_logits(2, kPlain, "megatron_data_parallel"));
    CHECK(overwrites_logits(2, kPlain, "megatron_selective"));
    CHECK(overwrites_logits(2, kPlain, "pipeline: {size: 1}, distributed_optimizer"));
    // main_grad: 16-bit weights with fp32 gradients.
    CHECK(overwrites_logits(2, kMain, ""));
    // One GPU, and systems of their own.
    CHECK_FALSE(overwrites_logits(1, kMain, "distributed_optimizer, megatron_selective"));
    CHECK_FALSE(overwrites_logits(2, kMain, "data_parallel"));
    CHECK_FALSE(overwrites_logits(2, kMain, "zero: {stage: 1}"));
    CHECK_FALSE(overwrites_logits(2, "precision: fp32", "megatron_selective, fsdp"));
    // A loss or a policy that is named is taken.
    CHECK(overwrites_logits(1, "precision: bf16_mixed, loss: megatron_cross_entropy", ""));
    CHECK(overwrites_logits(2, "precision: fp32, loss: megatron_cross_entropy", "fsdp"));
    CHECK_FALSE(overwrites_logits(2, "loss: cross_entropy", "distributed_optimizer"));
    CHECK_FALSE(overwrites_logits(2, kPlain, "distributed_optimizer, chunked_loss: {chunks: 2}"));
  }

  TEST_CASE("a loss in place needs six bytes per logit where PyTorch's needs twelve") {
    const std::int64_t logits = kTokens * kVocabulary;
    const std::int64_t small = 400 * kTokens * 16;  // activations of a block of width 16
    const char* policies = "distributed_optimizer";
    const std::int64_t megatron = added(simulated(2, "precision: bf16_mixed", policies));
    // 16-bit logits and fp32 probabilities; in backward the fp32 gradient and its 16-bit copy.
    CHECK(megatron >= 6 * logits);
    CHECK(megatron <= 6 * logits + small);
    const std::int64_t torch =
        added(simulated(2, "precision: bf16_mixed, loss: cross_entropy", policies));
    // 16-bit and fp32 logits, their log-probabilities, ... of 2 + 4 + 4 bytes and a gradient.
    CHECK(torch - megatron >= 4 * logits);
    CHECK(torch - megatron <= 8 * logits);
  }

  TEST_CASE("Megatron without its distributed optimizer holds 18 bytes per parameter") {
    const PointResult implied = simulated(4, "precision: bf16_mixed, gradient_dtype: fp32", "");
    const PointResult named =
        simulated(4, "precision: bf16_mixed, gradient_dtype: fp32", "megatron_data_parallel");
    CHECK(implied.run.live.bytes == named.run.live.bytes);
    CHECK(implied.run.step == named.run.step);
    const std::int64_t parameters = implied.parameter_count.count;
    CHECK(implied.parameters.count == 2 * parameters);
    CHECK(implied.gradients.count == 4 * parameters);
    CHECK(implied.optimizer_state.count >= 12 * parameters);
    CHECK(implied.optimizer_state.count <= 12 * parameters + 8 * 1024);  // step counters
    // One all-reduce of the buffer, in place: no bucket beside it.
    REQUIRE(implied.communication.size() == 1);
    CHECK(implied.communication[0].kind == CollectiveKind::kAllReduce);
    CHECK(implied.communication[0].count == 1);
    CHECK(implied.communication[0].bytes.count == 4 * parameters);
    const PointResult torch =
        simulated(4, "precision: bf16_mixed, gradient_dtype: fp32", "data_parallel");
    CHECK(torch.run.between_steps.count - implied.run.between_steps.count == 4 * parameters);
  }

  TEST_CASE("parameters that are gathered during the next forward shorten the step") {
    const auto step = [](std::string_view overlap) {
      return simulated(4, "precision: bf16_mixed, gradient_dtype: fp32, steps: 3",
                       fmt::format("distributed_optimizer: {{overlap_grad_reduce: true, bucket: "
                                   "4096, overlap_param_gather: {}}}",
                                   overlap));
    };
    const PointResult behind = step("false");
    const PointResult ahead = step("true");
    CHECK(ahead.run.step < behind.run.step);
    CHECK(ahead.run.live.bytes == behind.run.live.bytes);
    REQUIRE(ahead.communication.size() == behind.communication.size());
    for (std::size_t i = 0; i < ahead.communication.size(); ++i) {
      CHECK(ahead.communication[i].count == behind.communication[i].count);
      CHECK(ahead.communication[i].bytes.count == behind.communication[i].bytes.count);
    }
  }
}

}  // namespace tidemark::megatron_test
