// Checkpointing as torch.utils.checkpoint does it.
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

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

}  // namespace tidemark::checkpoint_test
