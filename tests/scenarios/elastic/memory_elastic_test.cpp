#include "scenarios/elastic/memory_elastic.hpp"

#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/elastic/elastic_document.hpp"
#include "scenarios/elastic/finder_study.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::memory_elastic_test {
namespace {

Value document(const std::string& policy, const std::string& hardware = "v100-sxm-16gb") {
  return parse_document(
      fmt::format("{{model: {{preset: gpt2, layers: 1, vocab: 2048}}, hardware: {}, training: "
                  "{{precision: fp32, optimizer: sgd}}, policies: [{}]}}",
                  hardware, policy),
      "test.yaml");
}

PointResult simulated(std::int64_t length, const std::string& capacity, std::int64_t micro_batch,
                      std::int64_t accumulate) {
  Value changed = without_elastic(document("checkpoint_every"));
  changed.find("policies")->items.clear();
  for (const std::string& change : {fmt::format("training.sequence={}", length),
                                    fmt::format("training.micro_batch={}", micro_batch),
                                    fmt::format("training.accumulate={}", accumulate),
                                    fmt::format("hardware.hbm.capacity={}", capacity)})
    apply_override(changed, parse_override(change));
  return simulate_points(changed, environment(), 1, {.convergence_limit = kConvergenceLimit})
      .front();
}

TEST_SUITE("property") {
  TEST_CASE("each step has the fastest micro-batch that fits it, at the same global batch") {
    const ElasticStudy study = study_elastic(
        document("memory_elastic: {global_batch: 12, lengths: [256, 64], capacity: [700MiB, "
                 "2GiB]}"),
        environment());
    REQUIRE(study.steps.size() == 2);
    CHECK(study.fits);
    Duration total{};
    const char* capacities[] = {"700MiB", "2GiB"};
    for (std::size_t step = 0; step < 2; ++step) {
      const ElasticSetting& chosen = study.steps[step].chosen;
      CHECK(chosen.micro_batch * chosen.accumulate == 12);
      total += chosen.result.run.step;
      // Trying all divisors says the same.
      Duration best = Duration::max();
      for (const std::int64_t micro_batch : {1, 2, 3, 4, 6, 12}) {
        const PointResult point =
            simulated(study.steps[step].length, capacities[step], micro_batch, 12 / micro_batch);
        if (point.status == PointStatus::kFits) best = std::min(best, point.run.step);
      }
      CHECK(chosen.result.run.step == best);
    }
    CHECK(study.time == total);
    REQUIRE(study.fixed);
    CHECK(study.fixed->fits);
    CHECK(study.fixed->time >= study.time);
    // The steps differ, so that one setting for both costs time.
    CHECK(study.steps[0].chosen.micro_batch < study.steps[1].chosen.micro_batch);
    const nlohmann::ordered_json json = elastic_document(study);
    CHECK(json.at("points").size() == 2);
    CHECK(json.at("elastic").at("steps").at(1).at("micro_batch") ==
          study.steps[1].chosen.micro_batch);
    CHECK(json.at("elastic").at("speedup").get<double>() >= 1);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("DeepSpeed's elasticity says the batch, the micro-batch and the numbers of GPUs") {
    const std::string policy =
        "memory_elastic: {lengths: [32], deepspeed: {micro_batches: [2, 3], max_batch: 24}}";
    const ElasticStudy study =
        study_elastic(document(policy, "{gpu: v100-sxm-16gb, count: 2}"), environment());
    // 2 x 12, 3 x 6 and 6 x 4: 24 can be shared by the divisors of 12 and of 8, seven in all.
    CHECK(study.options.global_batch == 24);
    CHECK(study.valid_gpus == std::vector<std::int64_t>{1, 2, 3, 4, 6, 8, 12});
    REQUIRE(study.deepspeed);
    CHECK(study.deepspeed->micro_batch == 3);
    CHECK(study.deepspeed->accumulate == 4);
    CHECK(study.deepspeed->fits);
    CHECK(error_of([&] {
            static_cast<void>(
                study_elastic(document(policy, "{gpu: v100-sxm-16gb, count: 24}"), environment()));
          }).find("12 can") != std::string::npos);
    // Two GPUs share the batch, and are fewer than the configuration allows.
    const std::string at_least_four =
        "memory_elastic: {lengths: [32], deepspeed: {micro_batches: [2, 3], max_batch: 24, "
        "min_gpus: 4}}";
    CHECK(error_of([&] {
            static_cast<void>(study_elastic(
                document(at_least_four, "{gpu: v100-sxm-16gb, count: 2}"), environment()));
          }).find("; 4 can") != std::string::npos);
  }

  TEST_CASE("what memory_elastic refuses names the key") {
    const auto refused = [](const std::string& parameters, const std::string& reason) {
      CAPTURE(parameters);
      const std::string error = error_of([&] {
        static_cast<void>(study_elastic(document(fmt::format("memory_elastic: {{{}}}", parameters)),
                                        environment()));
      });
      CHECK(error.find(reason) != std::string::npos);
    };
    refused("global_batch: 8", "'lengths' is missing");
    refused("lengths: [32]", "global_batch");
    refused("global_batch: 8, lengths: [32, 64], capacity: [1GiB, 2GiB, 3GiB]", "3 capacities");
    refused("global_batch: 8, lengths: [32], deepspeed: {}", "give one of them");
    refused("lengths: [32], deepspeed: {micro_batches: [4000]}", "above max_batch");
    // One point has one micro-batch.
    CHECK(error_of([&] {
            static_cast<void>(
                simulate_points(document("memory_elastic: {global_batch: 8, lengths: [32]}"),
                                environment(), 1, {}));
          }).find("tidemark run") != std::string::npos);
  }

  TEST_CASE("a finder of Lightning stops below what fits, and its trials take time") {
    const Value scenario = document("");
    const FitOptions options{.key = "training.micro_batch",
                             .simulate = {.convergence_limit = kConvergenceLimit}};
    Value small = scenario;
    apply_override(small, parse_override("hardware.hbm.capacity=900MiB"));
    apply_override(small, parse_override("training.sequence=256"));
    const Fit found = fit(small, environment(), options);
    REQUIRE(found.largest);
    const std::int64_t largest = found.tried[*found.largest].value;
    for (const BatchFinder& finder : batch_finders()) {
      CAPTURE(std::string(finder.name));
      const FinderStudy study = study_finder(small, environment(), options, finder);
      CHECK(study.found <= largest);
      CHECK(study.fits == true);
      CHECK(study.time.count() > 0);
      CHECK(study.trials.back().batch > 0);
    }
  }
}

}  // namespace
}  // namespace tidemark::memory_elastic_test
