// Points that differ in the capacity of their device take over one another's runs, and come out as
// they do alone.
#include "scenarios/studies/shared_runs.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/listed_policies.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::shared_runs_test {
namespace {

constexpr std::array<std::string_view, 6> kAllocators{
    "torch",
    "{kind: torch, expandable_segments: true}",
    "{kind: torch, max_split_size: 32MiB}",
    "{kind: torch, memory_fraction: 0.9, garbage_collection_threshold: 0.6}",
    "ideal",
    "bfc"};

Value document_of(std::string_view allocator, std::string_view policies, std::string_view rest) {
  return parse_document(
      fmt::format("{{model: {}, hardware: {{gpu: h100-sxm-80gb, hbm: {{bandwidth: 2TB/s}}}}, "
                  "allocator: {}, training: {{micro_batch: 4, sequence: 32}}, policies: [{}]{}}}",
                  policies.starts_with("liger") ? kLlama : kModels[0], allocator, policies, rest),
      "sweep.yaml");
}

struct Points {
  nlohmann::ordered_json documents;
  std::vector<PointResult> results;
  int runs = 0;
};

Points simulate_all(const Value& document, bool every_detail, bool smallest_capacity) {
  Points points;
  std::mutex mutex;
  PointsListener listener;
  listener.every_detail = every_detail;
  listener.detail = [&](std::size_t, const SimulatedPoint&) {
    const std::lock_guard lock(mutex);
    ++points.runs;
  };
  points.results = simulate_points(
      document, environment(), 1,
      {.smallest_capacity_of_fitting = smallest_capacity, .convergence_limit = kConvergenceLimit},
      listener);
  points.documents = result_document(points.results)["points"];
  return points;
}

// Capacities around what the step reserves without a limit, to the byte.
std::vector<std::int64_t> capacities_around(const PointResult& unlimited, std::mt19937& rng) {
  const std::int64_t needed = unlimited.device_used().count;
  std::vector<std::int64_t> capacities;
  constexpr std::array<std::int64_t, 7> kSteps{-1, 0, 1, 511, 512, 2 << 20, -(2 << 20)};
  for (const std::int64_t step : kSteps)
    capacities.push_back(needed + step);
  for (int i = 0; i < 3; ++i)
    capacities.push_back(needed + static_cast<std::int64_t>(rng() % 200'000'000) - 2'000'000);
  std::shuffle(capacities.begin(), capacities.end(), rng);
  return capacities;
}

// Returns how many of the points that fit were not run.
int compare_capacities(std::string_view allocator, std::string_view policies, std::mt19937& rng) {
  const Points alone = simulate_all(document_of(allocator, policies, ""), true, false);
  const std::string rest = fmt::format(", sweep: {{matrix: {{hardware.hbm.capacity: [{}]}}}}",
                                       fmt::join(capacities_around(alone.results[0], rng), ", "));
  CAPTURE(allocator);
  CAPTURE(policies);
  CAPTURE(rest);
  const Value swept = document_of(allocator, policies, rest);
  const bool smallest_capacity = rng() % 2 == 0;
  const Points each = simulate_all(swept, true, smallest_capacity);
  const Points shared = simulate_all(swept, false, smallest_capacity);
  CHECK(shared.documents == each.documents);
  CHECK(each.runs == static_cast<int>(each.results.size()));
  return each.runs - shared.runs;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("one run answers for every capacity that it fits into") {
    const auto runs_of = [](std::string_view allocator, std::string_view policies) {
      return simulate_all(document_of(allocator, policies,
                                      ", sweep: {matrix: {hardware.hbm.capacity: [80GiB, 20GiB, "
                                      "40GiB, 1GiB, 30GiB]}}"),
                          false, false)
          .runs;
    };
    CHECK(runs_of("torch", "") == 1);
    CHECK(runs_of("ideal", "checkpoint_every: {period: 1}") == 1);
    // What bfc takes, and when garbage is collected, follow from the capacity.
    CHECK(runs_of("bfc", "") == 5);
    CHECK(runs_of("{kind: torch, memory_fraction: 0.9, garbage_collection_threshold: 0.6}", "") ==
          5);
    // The budget is what the device leaves.
    CHECK(runs_of("torch", "optimal") == 5);
    CHECK(runs_of("torch", "eviction: {heuristic: dtr_eq}") == 5);
  }

  TEST_CASE("points that differ in more than the capacity share no run") {
    const auto runs_of = [](std::string_view matrix) {
      return simulate_all(
                 document_of("torch", "", fmt::format(", sweep: {{matrix: {{{}}}}}", matrix)),
                 false, false)
          .runs;
    };
    CHECK(
        runs_of("hardware.hbm.capacity: [40GiB, 80GiB], hardware.hbm.bandwidth: [1TB/s, 2TB/s]") ==
        2);
    CHECK(runs_of("hardware.hbm.capacity: [40GiB, 80GiB], training.micro_batch: [1, 2]") == 2);
    CHECK(runs_of("hardware.hbm.capacity: [40GiB, 80GiB], allocator: [torch, ideal]") == 2);
    CHECK(runs_of("hardware.hbm.capacity: [40GiB, 80GiB], hardware.host.memory: [64GiB, 1TiB]") ==
          2);
    CHECK(runs_of("hardware.hbm.capacity: [40GiB, 80GiB], hardware.gpu: [h100, a100-80gb]") == 2);
    CHECK(runs_of("name: [a, b], hardware.hbm.capacity: [40GiB, 80GiB]") == 1);
  }
}

TEST_SUITE("property") {
  TEST_CASE("a point comes out the same whether it is run or another's run is taken") {
    std::mt19937 rng(77);
    int shared = 0;
    const int rounds = test::runs_long_tests() ? 10 : 1;
    for (int round = 0; round < rounds; ++round) {
      for (const std::string_view allocator : kAllocators)
        shared += compare_capacities(allocator, "", rng);
      for (const PolicyEntry& entry : environment().policies.entries()) {
        const std::string policy = listed(std::string(entry.name));
        if (policy.find("time_limit") != std::string::npos) continue;
        shared += compare_capacities(kAllocators[rng() % kAllocators.size()], policy, rng);
      }
    }
    CHECK(shared > 50 * rounds);
  }
}

}  // namespace tidemark::shared_runs_test
