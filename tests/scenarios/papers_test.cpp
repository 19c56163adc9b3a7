// Scenarios that follow a table or a figure: the statements of their comments hold.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "scenarios/studies/compare.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::papers_test {
namespace {

Value paper(const std::string& name) {
  return load_scenario(test::source_path("scenarios/papers/") + name + ".yaml");
}

const ComparePoint& point_at(const Comparison& comparison, std::size_t list, double share) {
  const auto peak = static_cast<double>(comparison.base.run.live.bytes.count);
  for (const ComparePoint& point : comparison.points) {
    if (point.list == list && point.budget == Bytes(std::llround(share * peak))) return point;
  }
  FAIL("no such point");
  return comparison.points.front();
}

bool fits(const ComparePoint& point) {
  return point.result.status == PointStatus::kFits;
}

// No plan takes less time than the last one, `optimal`, at any budget, and none beats its bound.
void check_optimal_is_last(const Comparison& comparison) {
  const std::size_t optimal = comparison.points.back().list;
  for (const ComparePoint& best : comparison.points) {
    if (best.list != optimal) continue;
    for (const ComparePoint& other : comparison.points) {
      if (other.budget != best.budget || !fits(other) || !other.plan) continue;
      CAPTURE(other.list);
      CAPTURE(*other.budget);
      CHECK(fits(best));
      // To a thousandth: the simulated step has gaps that no plan's cost has.
      CHECK(static_cast<double>(best.result.run.step.count()) <=
            1.001 * static_cast<double>(other.result.run.step.count()));
      CHECK(other.plan->cost >= *best.plan->lower_bound);
    }
  }
}

Comparison compared(const std::string& name) {
  return compare(paper(name), environment(), 2);
}

TEST_SUITE("paper") {
  TEST_CASE("activations of 22 B under tensor parallelism are those of Korthikanti et al.") {
    // Table 2's formulas: 26.33, 17.58, 13, 4.25 and 0.25 bytes per sample, token and feature.
    constexpr std::array kPublished{59.25, 39.5625, 29.25, 9.5625, 0.5625};
    const std::vector<PointResult> points =
        simulate_points(paper("korthikanti_22b"), environment(), 2, {.smallest_capacity = false});
    REQUIRE(points.size() == kPublished.size());
    for (std::size_t i = 0; i < kPublished.size(); ++i) {
      CAPTURE(i);
      const double gib = static_cast<double>(points[i].saved_activations.count) / (1 << 30);
      CHECK(gib >= kPublished.at(i));
      CHECK(gib <= 1.01 * kPublished.at(i) + 0.25);  // embedding, norms and the loss
    }
  }

  TEST_CASE("10 billion parameters fit on what the scenario says, and nowhere with less") {
    const Value document = paper("ten_billion");
    const std::vector<PointDocument> documents = point_documents(document);
    // One point per row of the scenario's table: what does it, and what does not.
    struct Row {
      const char* gpu;
      int count;
      std::size_t policies;  // index of the list
      bool fits;
    };
    constexpr std::array kRows{Row{"v100-sxm-32gb", 1, 4, true},  Row{"v100-sxm-32gb", 4, 3, false},
                               Row{"v100-sxm-32gb", 8, 3, true},  Row{"v100-sxm-32gb", 8, 2, false},
                               Row{"a100-sxm-40gb", 4, 3, false}, Row{"a100-sxm-40gb", 8, 3, true},
                               Row{"h100-sxm-80gb", 2, 3, false}, Row{"h100-sxm-80gb", 4, 2, true},
                               Row{"h100-sxm-80gb", 4, 1, false}, Row{"h100-sxm-80gb", 8, 1, true},
                               Row{"h100-sxm-80gb", 8, 0, false}};
    constexpr std::array kGpus{"v100-sxm-32gb", "a100-sxm-40gb", "h100-sxm-80gb"};
    std::vector<bool> wanted(documents.size());
    const auto index_of = [&](const Row& row) {
      const auto gpu = static_cast<std::size_t>(
          std::find(kGpus.begin(), kGpus.end(), std::string_view(row.gpu)) - kGpus.begin());
      const std::size_t count = row.count == 1 ? 0 : row.count == 2 ? 1 : row.count == 4 ? 2 : 3;
      return (gpu * 4 + count) * 6 + row.policies;
    };
    for (const Row& row : kRows)
      wanted[index_of(row)] = true;
    const std::vector<PointResult> points =
        simulate_points(document, environment(), 2, {.smallest_capacity = false}, {}, wanted);
    REQUIRE(points.size() == 72);
    for (const Row& row : kRows) {
      const PointResult& point = points[index_of(row)];
      CAPTURE(row.gpu);
      CAPTURE(row.count);
      CAPTURE(row.policies);
      CHECK((point.status == PointStatus::kFits) == row.fits);
    }
    // Replicas: 2 bytes of parameters and gradients, 12 of states.
    const PointResult& whole = points[index_of({"h100-sxm-80gb", 8, 0, false})];
    const double count = static_cast<double>(whole.parameter_count.count);
    CHECK(count == doctest::Approx(10e9).epsilon(0.02));
    CHECK(static_cast<double>(whole.parameters.count) == 2 * count);
    CHECK(static_cast<double>(whole.gradients.count) == 2 * count);
    CHECK(static_cast<double>(whole.optimizer_state.count) ==
          doctest::Approx(12 * count).epsilon(1e-6));
  }

  TEST_CASE("states of t5-3b under ZeRO are those of DeepSpeed's estimators, bucket aside") {
    // P = 2,851,598,336 parameters on N = 8 ranks: 2P + 14P/N and 2P; 16P/N, 2P/N and nothing. The
    // estimators' 18P/N has fp32 gradients too, and ZeRO 3's 4L is what it gathers during the step.
    constexpr std::int64_t kParameters = 2'851'598'336;
    constexpr std::array kStates{2 * kParameters + 14 * kParameters / 8, 2 * kParameters,
                                 16 * kParameters / 8, 2 * kParameters / 8, std::int64_t{0}};
    constexpr std::int64_t kBucket = 2 * 500'000'000;  // ZeRO 3 keeps it between steps
    const std::vector<PointResult> points = simulate_points(
        paper("deepspeed_estimator"), environment(), 2, {.smallest_capacity = false});
    REQUIRE(points.size() == kStates.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      CAPTURE(i);
      CHECK(points[i].parameter_count.count == kParameters);
      const std::int64_t expected = kStates[i] + (i < 2 ? 0 : kBucket);
      const std::int64_t between = points[i].run.between_steps.count;
      CHECK(std::abs(between - expected) <= kParameters / 100);  // small parameters stay whole
    }
  }

  TEST_CASE("BERT-large under the rules of PyTorch 1.9 takes what nvidia-smi showed on a V100") {
    // transformers perf_train_gpu_one at 0016acf7, MiB, in the order of the scenario.
    constexpr std::array kPublished{14949.0, 8681.0, 6775.0, 7275.0, 4847.0, 12295.0, 5363.0};
    const std::vector<PointResult> points = simulate_points(
        paper("hf_bert_large_ladder"), environment(), 2, {.smallest_capacity = false});
    REQUIRE(points.size() == kPublished.size());
    std::vector<double> errors;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double mib = static_cast<double>(points[i].device_used().count) / kMiB.count;
      errors.push_back(std::abs(mib / kPublished[i] - 1));
      CHECK(errors.back() < 0.025);
    }
    std::nth_element(errors.begin(), errors.begin() + 3, errors.end());
    CHECK(errors[3] < 0.007);
  }

  TEST_CASE("torchtune's ladder of Llama 3.2 3B: peaks and their order") {
    constexpr std::array kPublished{60.0, 51.0, 42.9, 24.9, 23.1, 21.8, 17.6, 8.5, 4.6};
    const std::vector<PointResult> points = simulate_points(
        paper("torchtune_3b_ladder"), environment(), 2, {.smallest_capacity = false});
    REQUIRE(points.size() == kPublished.size());
    std::vector<double> errors;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double found = static_cast<double>(points[i].run.active.bytes.count) / (1 << 30);
      CAPTURE(found);
      CAPTURE(kPublished[i]);
      errors.push_back(std::abs(found / kPublished[i] - 1));
      CHECK(errors.back() < 0.12);
      if (i > 0) CHECK(points[i].run.active.bytes < points[i - 1].run.active.bytes);
    }
    std::nth_element(errors.begin(), errors.begin() + 4, errors.end());
    CHECK(errors[4] < 0.02);
  }

  TEST_CASE("Liger: Llama-3-8B is out of memory from 4,096 tokens on without it") {
    const std::vector<PointResult> points =
        simulate_points(paper("liger_llama3"), environment(), 1, {.smallest_capacity = false});
    // By tokens and by the type of the shards (bf16, fp32): Hugging Face's code, Liger's loss, loss
    // and kernels.
    constexpr std::array kGibibytes = {43.1,  24.4, 25.0, 54.7,  32.1,  30.4,  //
                                       77.2,  35.1, 31.6, 81.0,  42.6,  39.6,  //
                                       143.6, 54.5, 47.4, 147.4, 60.8,  53.5,  //
                                       278.2, 93.5, 78.0, 282.0, 101.8, 86.8};
    REQUIRE(points.size() == kGibibytes.size());
    for (std::size_t i = 0; i < kGibibytes.size(); ++i) {
      CAPTURE(i);
      const double used = static_cast<double>(points[i].device_used().count) / (1 << 30);
      CHECK(std::abs(used - kGibibytes.at(i)) < 0.1);
      CHECK((points[i].status == PointStatus::kFits) == (kGibibytes.at(i) < 79.2));
    }
  }

  TEST_CASE("Chen et al. 2016: n layers take the memory of sqrt(n), for one more forward pass") {
    const std::vector<PointResult> points =
        simulate_points(paper("chen_sqrt"), environment(), 2, {.smallest_capacity = false});
    REQUIRE(points.size() == 6);
    const auto saved = [&](std::size_t i) {
      return static_cast<double>(
          points[i].peak.by_role[static_cast<std::size_t>(Role::kSavedActivation)].count);
    };
    for (std::size_t n = 0; n < 3; ++n) {
      const double layers = std::pow(4.0, static_cast<double>(n) + 2);  // 16, 64, 256
      const double ratio = saved(2 * n) / saved(2 * n + 1);
      CHECK(ratio == doctest::Approx(std::sqrt(layers)).epsilon(0.02));
      const RunResult& all = points[2 * n].run;
      const RunResult& less = points[2 * n + 1].run;
      const Duration forward = all.phase[static_cast<std::size_t>(Phase::kForward)];
      CHECK(less.recompute <= forward);
      const double more =
          static_cast<double>(less.step.count()) / static_cast<double>(all.step.count()) - 1;
      CHECK(more > 0.28);  // published: 30 %
      CHECK(more < 0.32);
    }
    // The memory of 256 layers is that of 16 kept whole.
    CHECK(saved(5) == saved(0));
  }

  TEST_CASE("Checkmate: the largest batch of VGG-19, with at most one more forward pass") {
    // The answers and what follows each of them; all eight batches with the slow tests.
    std::vector<std::int64_t> batches{200, 240, 280, 320, 400, 440};
    Value scenario = paper("checkmate_batch");
    if (test::runs_long_tests()) {
      batches = {160, 200, 240, 280, 320, 360, 400, 440};
    } else {
      apply_override(scenario, parse_override(fmt::format("sweep.matrix.training.micro_batch=[{}]",
                                                          fmt::join(batches, ", "))));
    }
    const std::vector<PointResult> points =
        simulate_points(scenario, environment(), 2, {.smallest_capacity = false});
    REQUIRE(points.size() == 4 * batches.size());
    std::vector<std::int64_t> largest;
    for (std::size_t list = 0; list < 4; ++list) {
      std::int64_t most = 0;
      for (std::size_t k = 0; k < batches.size(); ++k) {
        const PointResult& point = points[batches.size() * list + k];
        const Duration forward = point.run.phase[static_cast<std::size_t>(Phase::kForward)];
        const bool counts = point.status == PointStatus::kFits && point.run.recompute <= forward;
        if (counts) most = batches[k];
      }
      largest.push_back(most);
    }
    CHECK(largest == std::vector<std::int64_t>{200, 280, 400, 400});
  }
}

// Each solves a dozen plans of several hundred operators, which takes minutes: run with
// `tidemark_tests -ts=plans -ns`.
TEST_SUITE("plans" * doctest::skip()) {
  TEST_CASE("Checkmate: VGG-16's overhead against budget") {
    const Comparison comparison = compared("checkmate_vgg16");
    check_optimal_is_last(comparison);
    const ComparePoint& tight = point_at(comparison, 3, 0.6);
    CHECK(*tight.overhead == doctest::Approx(0.0306).epsilon(0.05));
    CHECK(*tight.gap < 0.001);
    for (const std::size_t chen : {1U, 2U}) {
      const ComparePoint& heuristic = point_at(comparison, chen, 0.8);
      CHECK((!fits(heuristic) || *heuristic.overhead > 0.14));
    }
  }

  TEST_CASE("Checkmate: MobileNetV2's overhead against budget") {
    const Comparison comparison = compared("checkmate_mobilenet");
    check_optimal_is_last(comparison);
    CHECK(*point_at(comparison, 3, 0.3).overhead == doctest::Approx(0.233).epsilon(0.03));
    CHECK(*point_at(comparison, 3, 0.4).overhead == doctest::Approx(0.184).epsilon(0.03));
    CHECK(*point_at(comparison, 3, 0.5).overhead == doctest::Approx(0.147).epsilon(0.03));
    CHECK(*point_at(comparison, 3, 0.6).overhead == doctest::Approx(0.110).epsilon(0.03));
    CHECK(*point_at(comparison, 3, 0.4).gap < 0.005);
  }

  TEST_CASE("Checkmate: U-Net's overhead against budget") {
    const Comparison comparison = compared("checkmate_unet");
    check_optimal_is_last(comparison);
    CHECK(*point_at(comparison, 3, 0.5).overhead == doctest::Approx(0.057).epsilon(0.08));
    CHECK(*point_at(comparison, 3, 0.6).overhead == doctest::Approx(0.0353).epsilon(0.05));
    CHECK(*point_at(comparison, 3, 0.8).overhead == doctest::Approx(0.011).epsilon(0.05));
  }
  TEST_CASE("rotor on a ResNet: never worse than whole blocks, and behind what may keep parts") {
    Value document = paper("rotor_resnet");
    apply_override(document, parse_override("compare.budgets=[40%, 55%]"));
    const Comparison comparison = compare(document, environment(), 2);
    check_optimal_is_last(comparison);
    const Duration blocks = point_at(comparison, 0, 0.55).result.run.step;
    const Duration rotor = point_at(comparison, 2, 0.55).result.run.step;
    const Duration rockmate = point_at(comparison, 3, 0.55).result.run.step;
    CHECK(rotor <= blocks);
    CHECK(rockmate <= rotor);
    CHECK_FALSE(fits(point_at(comparison, 0, 0.4)));
    CHECK(fits(point_at(comparison, 2, 0.4)));
    CHECK(*point_at(comparison, 2, 0.55).overhead == doctest::Approx(0.110).epsilon(0.04));
    CHECK(*point_at(comparison, 4, 0.55).overhead == doctest::Approx(0.0722).epsilon(0.04));
  }
}

}  // namespace
}  // namespace tidemark::papers_test
