// Runs of one compiled step do not disturb each other.
#include "sim/step/run_compiled.hpp"

#include <array>
#include <thread>

#include <doctest/doctest.h>

#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/compile.hpp"

namespace tidemark::run_compiled_test {

TEST_SUITE("unit") {
  TEST_CASE("several runs share an eviction policy, each with a copy of its own") {
    const Value document = parse_document(
        "{model: {preset: gpt, layers: 4, width: 64, heads: 4, vocab: 512, sequence: 64}, "
        "hardware: a100-sxm-80gb, training: {micro_batch: 64, sequence: 64}, allocator: ideal, "
        "policies: [eviction: {heuristic: random, seed: 3}]}",
        "test.yaml");
    const Scenario scenario = decode_scenario(document, default_environment());
    const TrainedModel model = build_training(scenario);
    const Compiled compiled = compile(scenario, model);
    Scratch scratch;
    const Bytes peak = run_compiled(scenario, compiled, scratch, kUnlimited, false).live.bytes;
    const Bytes tight(peak.count * 9 / 10);
    const RunResult alone = run_compiled(scenario, compiled, scratch, tight, false);
    REQUIRE(alone.status == RunStatus::kCompleted);
    REQUIRE(alone.evictions > 0);

    std::array<RunResult, 4> together;
    std::array<std::thread, 4> threads;
    for (std::size_t i = 0; i < threads.size(); ++i) {
      threads[i] = std::thread([&, i] {
        Scratch own;
        for (int repeat = 0; repeat < 5; ++repeat)
          together[i] = run_compiled(scenario, compiled, own, tight, false);
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    for (const RunResult& run : together) {
      CHECK(run.status == RunStatus::kCompleted);
      CHECK(run.evictions == alone.evictions);
      CHECK(run.restores == alone.restores);
      CHECK(run.total == alone.total);
    }
  }
}

}  // namespace tidemark::run_compiled_test
