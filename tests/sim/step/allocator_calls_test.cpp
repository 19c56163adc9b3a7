// The calls of a program tell what its allocator does in further steps and with less memory, as
// runs of the programs do.
#include "sim/program/allocator_calls.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/result/timeline.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/run_compiled.hpp"

namespace tidemark::allocator_calls_test {

constexpr int kFurther = 8;

const std::vector<std::string> kModels = {
    "{preset: gpt, layers: 3, width: 96, heads: 4, vocab: 1000, sequence: 48}",
    "resnet18",
};
const std::vector<std::string> kAllocators = {
    "torch",
    "{kind: torch, expandable_segments: true}",
    "{kind: torch, max_split_size: 32MiB}",
    "{kind: torch, memory_fraction: 0.9, garbage_collection_threshold: 0.5}",
    "bfc",
    "ideal"};
const std::vector<std::string> kTrainings = {
    "micro_batch: 3",
    "micro_batch: 2, accumulate: 3, zero_grad: zero",
    "micro_batch: 2, accumulate: 2, optimizer: momentum",
    "micro_batch: 2, precision: fp16_autocast, loss_scale: dynamic, optimizer: adafactor",
    "micro_batch: 2, precision: fp32, optimizer: {name: adamw, implementation: loop}",
};
const std::vector<std::string> kPolicies = {
    "", "checkpoint_every: {period: 1}", "optimizer_in_backward: {}", "chen_sqrt: {}", "ema: {}",
};

std::string scenario_of(const std::string& model, const std::string& allocator,
                        const std::string& training, const std::string& policy, int steps) {
  const std::string size = model == "resnet18" ? "image: 64" : "sequence: 48";
  return fmt::format(
      "{{model: {}, hardware: a100-sxm-40gb, training: {{{}, {}, steps: {}}}, "
      "allocator: {}, policies: [{}]}}",
      model, training, size, steps, allocator, policy.empty() ? "" : "{" + policy + "}");
}

struct Step {
  Scenario scenario;
  Compiled compiled;
};

Step compiled_step(const std::string& text, const Environment& environment) {
  Scenario scenario = decode_scenario(parse_document(text, "test.yaml"), environment);
  const TrainedModel model = build_training(scenario);
  Compiled compiled = compile(scenario, model);
  return {std::move(scenario), std::move(compiled)};
}

TEST_SUITE("property") {
  TEST_CASE("further steps reserve what the calls of the last one say") {
    const Environment environment = default_environment();
    int compared = 0;
    for (std::size_t m = 0; m < kModels.size(); ++m) {
      for (std::size_t t = 0; t < kTrainings.size(); ++t) {
        for (std::size_t p = 0; p < kPolicies.size(); ++p) {
          const std::string& allocator = kAllocators[(m + t + 2 * p) % kAllocators.size()];
          const bool in_backward = kPolicies[p].starts_with("optimizer_in_backward");
          if (in_backward && t != 0) continue;  // takes neither accumulation nor scaled losses
          const std::string text =
              scenario_of(kModels[m], allocator, kTrainings[t], kPolicies[p], 2);
          CAPTURE(text);
          const Step step = compiled_step(text, environment);
          const auto calls = allocator_calls(step.compiled.program, step.compiled.order);
          REQUIRE(calls);
          if (!calls->further) continue;  // nothing is said of steps that may differ
          const auto called =
              make_calls(step.scenario, step.compiled, &*calls, kUnlimited, kFurther);
          REQUIRE(called);
          std::unique_ptr<AllocatorAfterRun> left;
          Scratch own;
          static_cast<void>(
              run_compiled(step.scenario, step.compiled, own, kUnlimited, true, nullptr, &left));
          REQUIRE(left != nullptr);
          const CalledSteps from_there = make_further_calls(
              step.scenario, step.compiled, *calls, *left,
              reserved_by_step(step.compiled.program, step.compiled.order, own), kFurther);
          CHECK(from_there.steps == called->steps);
          const int steps = static_cast<int>(called->steps.size());
          CHECK(converged_step(called->steps).has_value());
          const Step longer = compiled_step(
              scenario_of(kModels[m], allocator, kTrainings[t], kPolicies[p], steps), environment);
          Scratch scratch;
          const RunResult run =
              run_compiled(longer.scenario, longer.compiled, scratch, kUnlimited, true);
          REQUIRE(run.status == RunStatus::kCompleted);
          CHECK(reserved_by_step(longer.compiled.program, longer.compiled.order, scratch) ==
                called->steps);
          ++compared;
        }
      }
    }
    CHECK(compared >= 34);  // of 42
  }

  TEST_CASE("with less memory the calls fail where the run does") {
    const Environment environment = default_environment();
    int failed = 0;
    int continued = 0;
    for (const std::string& allocator : kAllocators) {
      const std::string text =
          scenario_of(kModels[0], allocator, "micro_batch: 16", kPolicies[0], 2);
      CAPTURE(text);
      const Step step = compiled_step(text, environment);
      const auto calls = allocator_calls(step.compiled.program, step.compiled.order);
      REQUIRE(calls);
      Scratch scratch;
      const RunResult whole =
          run_compiled(step.scenario, step.compiled, scratch, kUnlimited, false);
      for (int part = 0; part <= 10; ++part) {
        const Bytes least = whole.most_live * 9 / 10;
        const Bytes capacity = least + (whole.most_reserved - least) * part / 10;
        std::unique_ptr<AllocatorAfterRun> left;
        const RunResult run =
            run_compiled(step.scenario, step.compiled, scratch, capacity, true, nullptr, &left);
        const auto called = make_calls(step.scenario, step.compiled, &*calls, capacity, 2);
        if (run.status == RunStatus::kCompleted && run.retries == 0) {
          const auto all = make_calls(step.scenario, step.compiled, &*calls, capacity, kFurther);
          REQUIRE(left != nullptr);
          const CalledSteps from_there = make_further_calls(
              step.scenario, step.compiled, *calls, *left,
              reserved_by_step(step.compiled.program, step.compiled.order, scratch), kFurther);
          CHECK(from_there.steps == all->steps);
          CHECK(from_there.fails_in == all->fails_in);
          ++continued;
        }
        REQUIRE(called);
        CHECK(called->fails_in.has_value() == (run.status == RunStatus::kOutOfMemory));
        if (called->fails_in) {
          ++failed;
          const Position at = step.compiled.program.position[run.failed_instruction];
          CHECK(*called->fails_in == step.compiled.order.at[at].step);
        } else {
          CHECK(called->steps ==
                reserved_by_step(step.compiled.program, step.compiled.order, scratch));
        }
      }
    }
    CHECK(failed >= 6);
    CHECK(continued >= 6);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("calls that depend on time, or steps that nobody has seen twice, are not told") {
    const Environment environment = default_environment();
    const Step offloads = compiled_step(scenario_of(kModels[0], "torch", "micro_batch: 4",
                                                    "offload_activations: {min_bytes: 1B}", 2),
                                        environment);
    CHECK_FALSE(allocator_calls(offloads.compiled.program, offloads.compiled.order));
    const Step once =
        compiled_step(scenario_of(kModels[0], "torch", "micro_batch: 4", "", 1), environment);
    const auto calls = allocator_calls(once.compiled.program, once.compiled.order);
    REQUIRE(calls);
    CHECK(calls->steps() == 1);
    CHECK_FALSE(calls->further);
  }
}

}  // namespace tidemark::allocator_calls_test
