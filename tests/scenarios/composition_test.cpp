// Policies in any order: the same program.
#include <algorithm>
#include <array>
#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/compile.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark {
namespace {

// Every array of a program, mixed into one number.
std::uint64_t fingerprint(const StepProgram& program) {
  std::uint64_t hash = 1469598103934665603ULL;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 1099511628211ULL; };
  for (std::size_t i = 0; i < program.size(); ++i) {
    add(static_cast<std::uint64_t>(program.opcode[i]));
    add(program.stream[i]);
    add(program.subject[i]);
    add(program.position[i].value);
    for (std::uint32_t edge : program.edges_of(i))
      add(edge);
    for (BlockUse use : program.uses_of(i))
      add(use.block().value * 4ULL + static_cast<std::uint64_t>(use.access()));
  }
  for (const Block& block : program.blocks) {
    add(static_cast<std::uint64_t>(block.bytes.count));
    add(static_cast<std::uint64_t>(block.tier));
  }
  return hash;
}

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
  return fingerprint(compile(scenario, model).program);  // compile() verifies
}

TEST_SUITE("property") {
  TEST_CASE("checkpointing, offload of activations, state and parameters in any order are one") {
    const std::array<std::vector<std::string>, 4> choices{
        {{"checkpoint_every: {period: 1}", "checkpoint: {first: 2}"},
         {"offload_activations: {prefetch: 1, min_bytes: 1B}",
          "offload_activations: {prefetch: 0, min_bytes: 1B}"},
         {"offload_optimizer: {ratio: 0.5}", "offload_optimizer: {overlap: false}",
          "offload_optimizer: {tier: nvme, sub_group: 5000}",
          "offload_optimizer: {gradients: backward, ratio: 0.7}"},
         {"offload_parameters: {prefetch: 1, min_elements: 100}",
          "offload_parameters: {prefetch: 0, tier: nvme}"}}};
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
}  // namespace tidemark
