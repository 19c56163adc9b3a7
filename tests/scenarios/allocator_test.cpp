// Allocators and their options in whole scenarios.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/read/scenario.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::allocator_test {

namespace {

PointResult simulate_with(std::string_view allocator, std::string_view capacity = "79GiB",
                          std::string_view policies = "[]") {
  const std::string text = fmt::format(
      "{{version: 1, model: {{preset: gpt, layers: 4, width: 256, heads: 4, vocab: 4096, sequence: "
      "256}}, hardware: {{gpu: h100-sxm-80gb, hbm: {{capacity: {}}}}}, training: {{micro_batch: 4, "
      "sequence: 256}}, allocator: {}, policies: {}}}",
      capacity, allocator, policies);
  const Scenario scenario = decode(text);
  const TrainedModel model = build_training(scenario);
  return simulate(scenario, model, {.smallest_capacity = true});
}

std::vector<std::string> changes_of(const AllocatorModel& allocator) {
  std::vector<std::string> changes;
  for (const AllocatorChange& change : allocator.changes())
    changes.push_back(change.text);
  return changes;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("an option that does nothing without another one says so") {
    const auto warned = [](std::string_view allocator) {
      const std::vector<std::string> all = simulate_with(allocator).warnings;
      return std::any_of(all.begin(), all.end(), [](const std::string& warning) {
        return warning.starts_with("garbage_collection_threshold does nothing");
      });
    };
    CHECK(warned("{kind: torch, garbage_collection_threshold: 0.8}"));
    CHECK_FALSE(warned("{kind: torch, garbage_collection_threshold: 0.8, memory_fraction: 0.9}"));
    CHECK_FALSE(warned("torch"));
  }

  TEST_CASE("ZeRO 3 that is to offload parameters on one GPU says that it moves none") {
    const auto warned = [](std::string_view options) {
      const std::vector<std::string> all =
          simulate_with("torch", "79GiB", fmt::format("[zero: {{stage: 3{}}}]", options)).warnings;
      return std::any_of(all.begin(), all.end(), [](const std::string& warning) {
        return warning.starts_with("zero moves no parameters on one GPU");
      });
    };
    CHECK(warned(", offload: {parameters: host}"));
    CHECK_FALSE(warned(", offload: {optimizer: host}"));
  }

  TEST_CASE("a scenario's allocator takes PyTorch's options") {
    const Scenario scenario = decode(
        scenario_text("allocator: {kind: torch, expandable_segments: true, max_split_size: 128MiB, "
                      "roundup_power2_divisions: {256MiB: 1, '>': 4}, memory_fraction: 0.9}\n"));
    const AllocatorModel& torch = *scenario.allocator;
    CHECK(torch.traits().name == "torch");
    CHECK(torch.memory_fraction() == 0.9);
    CHECK(!torch.needs_what_it_reserves());
    // A setting that is made already is not suggested.
    CHECK(changes_of(torch) ==
          std::vector<std::string>{"max_split_size 32 MiB", "garbage_collection_threshold 0.8"});
    const Scenario bfc = decode(scenario_text("allocator: {kind: bfc, allow_growth: true}\n"));
    CHECK(bfc.allocator->traits().name == "bfc");
    CHECK(bfc.allocator->memory_fraction() == 1);
  }

  TEST_CASE("options of one allocator are unknown to another") {
    const auto refusal = [](const std::string& allocator) {
      return error_of([&] { static_cast<void>(decode(scenario_text(allocator))); });
    };
    CHECK(refusal("allocator: {kind: bfc, expandable_segments: true}\n")
              .starts_with("s.yaml:3:24: allocator.expandable_segments: unknown key"));
    const std::string old = "training: {framework: torch-1.13-cuda}\n";
    const std::string lacks =
        "torch-1.13-cuda has no expandable segments, which came with PyTorch 2.1";
    CHECK(refusal(old + "allocator: {kind: torch, expandable_segments: true}\n") ==
          "s.yaml:4:47: allocator.expandable_segments: " + lacks);
    CHECK(refusal(old + "allocator: {kind: torch, conf: 'expandable_segments: True'}\n") ==
          "s.yaml:4:32: allocator.conf: " + lacks);
    CHECK(refusal("allocator: {kind: torch, conf: 'max_split_size_mb:12'}\n") ==
          "s.yaml:3:32: allocator.conf: max_split_size_mb: must be above 20, found 12");
  }
}

TEST_SUITE("property") {
  TEST_CASE("live bytes do not depend on the allocator; what is reserved is never less") {
    const PointResult ideal = simulate_with("ideal");
    CHECK(ideal.status == PointStatus::kFits);
    for (const std::string_view allocator :
         {"torch", "bfc", "{kind: bfc, allow_growth: true}",
          "{kind: torch, expandable_segments: true}", "{kind: torch, max_split_size: 32MiB}",
          "{kind: torch, roundup_power2_divisions: 4}",
          "{kind: torch, memory_fraction: 0.5, garbage_collection_threshold: 0.3}"}) {
      CAPTURE(allocator);
      const PointResult point = simulate_with(allocator, "79GiB", "[offload_activations: {}]");
      const PointResult plain = simulate_with(allocator);
      CHECK(point.status == PointStatus::kFits);
      CHECK(plain.run.live.bytes == ideal.run.live.bytes);
      CHECK(plain.run.allocated.bytes >= plain.run.live.bytes);
      CHECK(plain.run.reserved.bytes >= plain.run.allocated.bytes);
      CHECK(plain.smallest_capacity >= ideal.smallest_capacity);
    }
  }

  TEST_CASE("a point fits into the capacity that it says is the smallest, and not into less") {
    for (const std::string_view allocator :
         {"torch", "{kind: torch, expandable_segments: true}",
          "{kind: torch, memory_fraction: 0.8}", "{kind: bfc, allow_growth: true}", "bfc"}) {
      CAPTURE(allocator);
      const std::int64_t smallest = simulate_with(allocator).smallest_capacity.count;
      const PointResult fits = simulate_with(allocator, std::to_string(smallest));
      CHECK(fits.status == PointStatus::kFits);
      const PointResult tight = simulate_with(allocator, std::to_string(smallest - 2 * kMiB.count));
      CHECK(tight.status == PointStatus::kOutOfMemory);
      CHECK(tight.run.ooms == 1);
    }
  }

  TEST_CASE(
      "rounding to divisions allocates at least as much; expandable segments map whole pages") {
    const std::int64_t plain = simulate_with("torch").run.reserved.bytes.count;
    CHECK(simulate_with("{kind: torch, roundup_power2_divisions: 1}").run.reserved.bytes.count ==
          plain);
    CHECK(simulate_with("{kind: torch, roundup_power2_divisions: 2}").run.allocated.bytes.count >=
          simulate_with("torch").run.allocated.bytes.count);
    const PointResult expandable = simulate_with("{kind: torch, expandable_segments: true}");
    CHECK(expandable.run.reserved.bytes.count % (2 * kMiB.count) == 0);
    CHECK(expandable.run.reserved.bytes >= expandable.run.allocated.bytes);
  }
}

}  // namespace tidemark::allocator_test
