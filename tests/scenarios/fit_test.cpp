#include "scenarios/studies/fit.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::fit_test {
namespace {

Value document(const std::string& more) {
  return parse_document(
      fmt::format("{{model: {{preset: gpt2, layers: 2, vocab: 4096}}, hardware: v100-sxm-16gb, "
                  "training: {{sequence: 512}}{}}}",
                  more),
      "test.yaml");
}

bool fits(const Value& scenario, const std::string& key, std::int64_t value) {
  Value changed = scenario;
  apply_override(changed, parse_override(fmt::format("{}={}", key, value)));
  return simulate_points(changed, environment(), 1, {.convergence_limit = kConvergenceLimit})
             .front()
             .status == PointStatus::kFits;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("a plan for the whole device leaves what the allocator needs, so larger batches fit") {
    const auto largest = [](const std::string& policies) {
      const Value scenario = parse_document(
          fmt::format("{{model: {{preset: bert-base, layers: 3}}, hardware: {{gpu: v100-sxm-16gb, "
                      "hbm: {{capacity: 4GiB}}}}, training: {{sequence: 256}}, policies: {}}}",
                      policies),
          "test.yaml");
      const Fit found = fit(
          scenario, environment(),
          {.key = "training.micro_batch", .simulate = {.convergence_limit = kConvergenceLimit}});
      REQUIRE(found.largest);
      return found.tried[*found.largest].value;
    };
    const std::int64_t without = largest("[]");
    const std::int64_t all_blocks = largest("[checkpoint_every: {period: 1}]");
    CHECK(all_blocks > without);
    CHECK(largest("[chen_greedy]") > without);
    // Every schedule is open to it, but which of them fragments least is not part of the plan.
    CHECK(20 * largest("[optimal: {iterations: 20}]") >= 19 * all_blocks);
  }

  TEST_CASE("the value that is found fits and none above it does") {
    for (const char* more :
         {"", ", allocator: ideal", ", allocator: bfc", ", policies: [checkpoint_every]",
          ", allocator: {kind: torch, memory_fraction: 0.5}"}) {
      CAPTURE(std::string(more));
      const Value scenario = document(more);
      const Fit found = fit(
          scenario, environment(),
          {.key = "training.micro_batch", .simulate = {.convergence_limit = kConvergenceLimit}});
      REQUIRE(found.largest);
      REQUIRE(found.next);
      const std::int64_t largest = found.tried[*found.largest].value;
      CHECK(found.tried[*found.next].value == largest + 1);
      CHECK(fits(scenario, "training.micro_batch", largest));
      for (std::int64_t above = 1; above <= 8; ++above)
        CHECK_FALSE(fits(scenario, "training.micro_batch", largest + above));
      // The excluded value follows from live bytes, which grow with the batch.
      REQUIRE(found.excluded_from);
      CHECK(*found.excluded_from > largest);
      CHECK(found.untried == 0);
      const auto live = [](const FitPoint& point) { return point.result.run.live.bytes.count; };
      CHECK(std::is_sorted(found.tried.begin(), found.tried.end(),
                           [&](const auto& a, const auto& b) { return live(a) < live(b); }));
      CHECK(std::is_sorted(found.tried.begin(), found.tried.end(),
                           [](const FitPoint& a, const FitPoint& b) { return a.value < b.value; }));
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("policies that search are tried briefly; the answer has their whole search") {
    const ScenarioFolder folder("fit");
    const std::string layers = folder.write("layers.yaml",
                                            "name: mlp\n"
                                            "inputs: {x: [batch, 512]}\n"
                                            "layers: [{linear: 4096}, gelu, {linear: 512}, gelu, "
                                            "{linear: 4096}, gelu, {linear: 512}]\n");
    const auto scenario = [&](const std::string& policies) {
      return parse_document(
          fmt::format("{{model: {{layers: \"{}\"}}, hardware: {{gpu: v100-sxm-16gb,"
                      " hbm: {{capacity: 1GiB}}}}, training: {{loss: mse}}, policies: {}}}",
                      layers, policies),
          "test.yaml");
    };
    const FitOptions options{.key = "training.micro_batch",
                             .multiple_of = 512,
                             .simulate = {.convergence_limit = kConvergenceLimit}};
    const auto limited = [&](const std::string& policies, SearchEffort effort) {
      const Value document = scenario(policies);
      return ValuePoints(document, environment(), options).simulate(512, {}, effort).limited;
    };
    CHECK(limited("[optimal]", SearchEffort::kTrial));
    CHECK_FALSE(limited("[optimal]", SearchEffort::kWhole));
    CHECK_FALSE(limited("[optimal: {iterations: 20}]", SearchEffort::kTrial));
    CHECK_FALSE(limited("[optimal: {time_limit: 5s}]", SearchEffort::kTrial));
    CHECK_FALSE(limited("[checkpoint_every]", SearchEffort::kTrial));
    // A graph this small is solved exactly, so trial and whole search agree.
    const auto answer = [&](const std::string& policies) {
      const Fit found = fit(scenario(policies), environment(), options);
      REQUIRE(found.largest);
      const FitPoint& best = found.tried[*found.largest];
      return std::pair(best.value, best.result.run.step);
    };
    const auto searched = answer("[optimal]");
    CHECK(searched == answer("[optimal: {time_limit: 10s}]"));
    CHECK(searched.first > answer("[]").first);
    // Where nothing fits, the whole search keeps the changes that were tried after the trial.
    Value small = scenario("[optimal]");
    apply_override(small, parse_override("hardware.hbm.capacity=600MiB"));
    FitOptions with_advice = options;
    with_advice.simulate.suggestions = true;
    const Fit nothing = fit(small, environment(), with_advice);
    REQUIRE_FALSE(nothing.largest);
    REQUIRE(nothing.tried.front().result.failure);
    CHECK_FALSE(nothing.tried.front().result.failure->tried.empty());
  }

  TEST_CASE("other keys, multiples, limits, and values that cannot be built") {
    const Value scenario = document("");
    const Fit sequence =
        fit(scenario, environment(), {.key = "training.sequence", .multiple_of = 192});
    REQUIRE(sequence.largest);
    // 1,024 positions are learned.
    CHECK(sequence.tried[*sequence.largest].value == 960);
    REQUIRE(sequence.next);
    CHECK(sequence.tried[*sequence.next].result.status == PointStatus::kError);
    CHECK_FALSE(sequence.excluded_from);

    const Fit limited = fit(scenario, environment(), {.key = "training.accumulate", .limit = 11});
    REQUIRE(limited.largest);
    CHECK(limited.tried[*limited.largest].value == 11);
    CHECK_FALSE(limited.next);

    const Value small = parse_document(
        "{model: llama-2-7b, hardware: v100-sxm-16gb, training: {sequence: 64}}", "test.yaml");
    const Fit none = fit(small, environment(), {.key = "training.micro_batch"});
    CHECK_FALSE(none.largest);
    REQUIRE(none.next);
    CHECK(none.tried[*none.next].value == 1);

    CHECK(error_of([&] {
            static_cast<void>(fit(scenario, environment(), {.key = "training.optimizer"}));
          }).find("--maximize: training.optimizer: expected one of") == 0);
    CHECK(error_of([&] {
            static_cast<void>(fit(document(", sweep: {matrix: {training.micro_batch: [1, 2]}}"),
                                  environment(), {.key = "training.micro_batch"}));
          }).find("fit looks for one value") != std::string::npos);
    // In a sweep of one point the key may be the one that it sets.
    const Fit swept = fit(document(", sweep: {matrix: {training.micro_batch: [4]}}"), environment(),
                          {.key = "training.micro_batch", .limit = 2});
    REQUIRE(swept.largest);
    CHECK(swept.tried.front().result.run.live.bytes.count <
          swept.tried.back().result.run.live.bytes.count);
    const auto refusal = [&](const std::string& key) {
      return error_of([&] { static_cast<void>(fit(scenario, environment(), {.key = key})); });
    };
    CHECK(refusal("name").find("'name' does not change whether it fits") != std::string::npos);
    CHECK(refusal("trainin.micro_batch").find("did you mean 'training'") != std::string::npos);
    for (const char* key : {"", "training.micro_batch=4"})
      CHECK(refusal(key).find("--maximize: expected a key") == 0);
  }

  TEST_CASE("where more of a key takes less memory, larger values than the first are tried") {
    const auto with = [](const char* policies, const std::string& capacity) {
      return parse_document(
          fmt::format(
              "{{model: {{preset: gpt2, layers: 7, vocab: 512}}, training: {{micro_batch: "
              "8, sequence: 512}}, hardware: {{gpu: v100-sxm-16gb, hbm: {{capacity: {}}}}}, "
              "allocator: ideal, policies: [{}]}}",
              capacity, policies),
          "test.yaml");
    };
    const Value roomy = with("checkpoint: {first: 1}", "16GiB");
    const std::string key = "policies.checkpoint.first";
    const Fit all = fit(roomy, environment(), {.key = key, .limit = 7});
    REQUIRE(all.largest);
    const std::int64_t most = all.tried[*all.largest].value;
    CHECK(most == 7);
    // With what the largest needs, the smallest does not fit.
    const std::int64_t enough = all.tried[*all.largest].result.smallest_capacity.count;
    const Value tight = with("checkpoint: {first: 1}", fmt::to_string(enough));
    CHECK_FALSE(fits(tight, key, 1));
    CHECK(fits(tight, key, most));
    const Fit found = fit(tight, environment(), {.key = key, .limit = 7});
    REQUIRE(found.largest);
    CHECK(found.tried[*found.largest].value == most);
    const Fit none =
        fit(with("checkpoint: {first: 1}", "600MiB"), environment(), {.key = key, .limit = 7});
    CHECK_FALSE(none.largest);
  }
}

}  // namespace tidemark::fit_test
