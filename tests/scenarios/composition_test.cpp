// Policies in any order give the same program.
#include <algorithm>
#include <array>
#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/read/scenario.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/compile.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/program_fingerprint.hpp"

namespace tidemark::composition_test {
namespace {

std::uint64_t compiled_fingerprint(const std::vector<std::string>& policies,
                                   const std::string& precision) {
  const std::string text = fmt::format(
      "model: {{preset: gpt, layers: 4, width: 64, heads: 4, vocab: 128, sequence: 32}}\n"
      "hardware: h100-sxm-80gb\n"
      "training: {{micro_batch: 2, sequence: 32, accumulate: 2, precision: {}}}\n"
      "policies: [{}]\n",
      precision, fmt::join(policies, ", "));
  const Scenario scenario = decode(text);
  const TrainedModel model = build_training(scenario);
  return test::fingerprint(compile(scenario, model).program);  // compile() verifies
}

TEST_SUITE("property") {
  TEST_CASE("checkpointing, offload of activations, state and parameters in any order are one") {
    const std::array<std::vector<std::string>, 4> choices{
        {{"checkpoint_every: {period: 1}", "checkpoint: {first: 2}"},
         {"offload_activations: {prefetch: 1, min_bytes: 1B}",
          "offload_activations: {prefetch: 0, min_bytes: 1B}"},
         {"offload_optimizer: {ratio: 0.5}", "offload_optimizer: {overlap: false}",
          "offload_optimizer: {tier: nvme, sub_group: 5000}",
          "offload_optimizer: {gradients: backward, ratio: 0.7}",
          "offload_optimizer: {delayed: true, ratio: 0.8}"},
         {"offload_parameters: {prefetch: 1, min_elements: 100}",
          "offload_parameters: {prefetch: 0, tier: nvme}",
          "offload_parameters: {prefetch_bucket_size: 20000, min_elements: 100}"}}};
    const std::array<std::string, 4> precisions{"fp32", "bf16_mixed", "bf16_autocast", "bf16"};
    std::mt19937 rng(7);
    const auto pick = [&](std::size_t count) {
      return std::uniform_int_distribution<std::size_t>(0, count - 1)(rng);
    };
    std::vector<std::uint64_t> seen;
    for (int round = 0; round < 24; ++round) {
      std::vector<std::string> policies;
      for (const std::vector<std::string>& choice : choices) {
        if (pick(4) > 0) policies.push_back(choice[pick(choice.size())]);
      }
      const std::string precision = precisions[pick(precisions.size())];
      CAPTURE(precision);
      CAPTURE(fmt::format("{}", fmt::join(policies, ", ")));
      const std::uint64_t expected = compiled_fingerprint(policies, precision);
      for (int order = 0; order < 3; ++order) {
        std::shuffle(policies.begin(), policies.end(), rng);
        CAPTURE(fmt::format("{}", fmt::join(policies, ", ")));
        CHECK(compiled_fingerprint(policies, precision) == expected);
      }
      seen.push_back(expected);
    }
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    CHECK(seen.size() > 12);  // the fingerprint tells programs apart
  }
}

}  // namespace
}  // namespace tidemark::composition_test
