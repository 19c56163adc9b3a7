// Checkpointing as torch.utils.checkpoint does it.
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::checkpoint_test {
namespace {

PointResult simulated(const std::string& text) {
  const Scenario scenario = decode(text);
  return simulate(scenario, build_training(scenario), {.smallest_capacity = false});
}

constexpr int kBlocks = 3;

PointResult gpt(const std::string& checkpoint, const std::string& framework = "torch-2.4-cuda") {
  return simulated(
      fmt::format("model: {{preset: gpt, layers: {}, width: 64, heads: 2, vocab: 256}}\n"
                  "hardware: a100-sxm-40gb\nallocator: ideal\n"
                  "training: {{sequence: 32, micro_batch: 4, dropout: 0, framework: {}}}\n"
                  "policies: [checkpoint_every: {{{}}}]\n",
                  kBlocks, framework, checkpoint));
}

std::int64_t recomputed(const PointResult& point) {
  return point.policies.front().recomputed_operators;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("hooks recompute up to the last saved tensor, reentrant functions whole blocks") {
    const PointResult reentrant = gpt("period: 1");
    const PointResult whole = gpt("reentrant: false, early_stop: false");
    const PointResult early = gpt("reentrant: false");
    CHECK(recomputed(whole) == recomputed(reentrant));
    // The last product of a block saves its operand and is not run, nor the residual sum behind it.
    CHECK(recomputed(early) == recomputed(whole) - 2 * kBlocks);
    CHECK(early.run.recompute < whole.run.recompute);
    CHECK(early.run.live.bytes <= whole.run.live.bytes);
    CHECK(early.saved_activations == whole.saved_activations);
    // set_checkpoint_early_stop came with PyTorch 2.1.
    CHECK(recomputed(gpt("reentrant: false", "torch-1.13-cuda")) ==
          recomputed(gpt("reentrant: false, early_stop: false", "torch-1.13-cuda")));
  }

  TEST_CASE("a reentrant recomputation does not stop early") {
    try {
      static_cast<void>(gpt("early_stop: true"));
      FAIL("no error");
    } catch (const UserError& error) {
      CHECK(std::string(error.what()).find("add reentrant: false") != std::string::npos);
    }
    CHECK(recomputed(gpt("early_stop: false")) == recomputed(gpt("period: 1")));
  }
}

#if TIDEMARK_READS_ONNX
TEST_SUITE("golden") {
  TEST_CASE("generated models keep and peak as the recorded step of PyTorch does") {
    const Value document = read_document(test::data_path("torch/generated/steps.yaml"));
    int compared = 0;
    for (const Value& step : document.find("steps")->items) {
      const std::string file = step.find("file")->scalar;
      CAPTURE(file);
      Value scenario = step;
      std::erase_if(scenario.entries, [](const Value::Entry& entry) {
        return entry.key == "file" || entry.key == "figures";
      });
      apply_override(scenario, parse_override("hardware=h100-sxm-80gb"));
      apply_override(scenario, parse_override("allocator=ideal"));
      apply_override(scenario, parse_override(fmt::format(
                                   "model.onnx={}", test::data_path("torch/generated/" + file))));
      const Scenario decoded = decode_scenario(scenario, environment());
      const PointResult point =
          simulate(decoded, build_training(decoded), {.smallest_capacity = false});
      const auto figure = [&](std::string_view name) {
        return std::stoll(step.find("figures")->find(name)->scalar);
      };
      const auto peak = [&](Phase phase) {
        return point.run.phase_live_without_workspace[static_cast<std::size_t>(phase)].bytes.count;
      };
      CHECK(point.saved_activations.count == figure("saved"));
      CHECK(peak(Phase::kBackward) == figure("backward"));
      CHECK(peak(Phase::kOptimizer) == figure("optimizer"));
      ++compared;
    }
    CHECK(compared == 5);
  }
}
#endif

}  // namespace tidemark::checkpoint_test
