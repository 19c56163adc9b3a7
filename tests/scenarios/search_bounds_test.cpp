// Compares what a search knows of points that it does not simulate with simulations of them.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/search/judge.hpp"
#include "scenarios/studies/search/search.hpp"
#include "scenarios/studies/search/search_document.hpp"
#include "sim/step/point_runner.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/long_tests.hpp"

namespace tidemark::search_bounds_test {
namespace {

constexpr std::string_view kModels[] = {
    "{preset: gpt2, layers: 3, vocab: 512}", "resnet18",
    "{preset: mlp, widths: [64, 96, 128, 64, 10]}",
    "{preset: llama-3-8b, layers: 2, width: 64, heads: 4, kv_heads: 2, ffn: 96, vocab: 512}"};
constexpr std::string_view kDevices[] = {"v100-sxm-16gb", "a100-sxm-40gb", "rtx-4090",
                                         "{gpu: h100-sxm-80gb, count: 4}",
                                         "{gpu: h100-sxm-80gb, count: 4, price: 3, power: {watts: "
                                         "700, idle: 90}}"};
constexpr std::string_view kPolicies[] = {"",
                                          "checkpoint_every: {period: 1}",
                                          "checkpoint: {first: 1}",
                                          "chen_greedy",
                                          "rotor",
                                          "offload_activations",
                                          "offload_optimizer",
                                          "offload_parameters",
                                          "optimizer_in_backward",
                                          "vdnn",
                                          "torchtune_offload",
                                          "compress_activations",
                                          "ema",
                                          "eviction: {heuristic: dtr}",
                                          "zero: {stage: 2}",
                                          "fsdp",
                                          "hybrid: {budget: 2GiB}",
                                          "superneurons",
                                          "selective: {save: [linear, conv2d]}",
                                          "pipeline: {size: 2}",
                                          "tensor_parallel: {size: 2}",
                                          "capuchin: {budget: 2GiB}"};
constexpr std::string_view kOptimizers[] = {"sgd", "momentum", "adamw", "adafactor"};
constexpr std::string_view kPrecisions[] = {"fp32", "bf16_autocast", "fp16_mixed"};
constexpr std::string_view kAllocators[] = {"torch", "ideal", "bfc", "packed"};

template <std::size_t n>
std::string_view any_of(const std::string_view (&words)[n], std::mt19937& random) {
  return words[random() % n];
}

constexpr std::string_view kFigures[] = {"time.step",
                                         "time.per_sample",
                                         "time.per_token",
                                         "time.recompute",
                                         "time.forward",
                                         "memory.device_used",
                                         "memory.peak_live",
                                         "memory.peak_allocated",
                                         "memory.peak_active",
                                         "memory.peak_reserved",
                                         "memory.smallest_capacity",
                                         "memory.host.peak",
                                         "memory.capacity",
                                         "cost.device_hours",
                                         "cost.joules",
                                         "cost.price",
                                         "cost.price_per_sample",
                                         "throughput.samples_per_step",
                                         "throughput.samples_per_second",
                                         "throughput.tokens_per_second",
                                         "throughput.samples_per_second_per_gpu",
                                         "throughput.model_flops_utilization",
                                         "hardware.hbm.capacity"};

// A figure lies between what is known of it from below and from above.
void check_bound(const PointResult& bound, const PointResult& result, std::string_view figure,
                 const std::vector<Figure>& device) {
  CAPTURE(figure);
  const auto entry = result_entry(result);
  const double real = figures_of(entry, device)(figure);
  if (std::isnan(real)) return;
  for (const bool maximize : {false, true}) {
    const Goal goal{.maximize = maximize,
                    .objectives = {Expression(std::string(figure), false)},
                    .subject_to = {}};
    const double best = prospect_of(bound, goal, device).objectives.front();
    CHECK((maximize ? real <= best : real >= best));
  }
}

std::string any_point(std::string_view policy, std::mt19937& random) {
  return fmt::format(
      "{{model: {}, hardware: {}, allocator: {}, policies: [{}], training: {{micro_batch: {}, "
      "accumulate: {}, optimizer: {}, precision: {}, mode: {}, host: {}}}}}",
      any_of(kModels, random), any_of(kDevices, random), any_of(kAllocators, random), policy,
      1U << (random() % 5), 1 + random() % 2, any_of(kOptimizers, random),
      any_of(kPrecisions, random), random() % 6 == 0 ? "forward" : "train",
      random() % 4 == 0 ? "cuda_graphs" : "eager");
}

// A space with a micro-batch too large for the device at its end.
std::string any_space(std::mt19937& random) {
  static constexpr std::string_view kGoals[] = {
      "{maximize: throughput.samples_per_second}",
      "{minimize: time.step}",
      "{minimize: [time.per_sample, memory.device_used]}",
      "{maximize: throughput.samples_per_second, subject_to: [\"memory.device_used <= 0.5 * "
      "hardware.hbm.capacity\"]}",
      "{minimize: memory.device_used / throughput.samples_per_step, subject_to: [\"time.step < "
      "30ms\"]}",
      "{minimize: time.per_sample * (1 + memory.peak_live / memory.capacity)}",
      "{minimize: 1 / throughput.samples_per_second - 0.1 * time.recompute}",
      "{minimize: time.step, subject_to: [\"throughput.samples_per_second >= 900\"]}",
      "{maximize: [throughput.samples_per_second, throughput.samples_per_step]}"};
  std::string_view policy = any_of(kPolicies, random);
  if (policy.empty() || policy.starts_with("checkpoint_every")) policy = "offload_optimizer";
  return fmt::format(
      "{{model: {{preset: gpt2, layers: 2, vocab: {}}}, hardware: v100-sxm-16gb, training: "
      "{{sequence: 512}}, goal: {}, sweep: {{matrix: {{training.micro_batch: {{from: {}, to: {}, "
      "times: 2}}, training.precision: [fp32, fp16_mixed], policies: [[], [checkpoint_every: "
      "{{period: 1}}], [{}]]}}}}}}",
      random() % 2 == 0 ? 512 : 50257, any_of(kGoals, random), 1 + random() % 3,
      64 << (random() % 5), policy);
}

SearchResult search_of(const std::string& text, bool every_point, std::size_t answers,
                       int threads = 2) {
  return search(parse_document(text, "s.yaml"), environment(), threads,
                {.simulation = {.smallest_capacity_of_fitting = false},
                 .every_point = every_point,
                 .answers = answers});
}

// Returns the indices in the sweep of the first `most` places of a list.
std::vector<std::size_t> in_sweep(const SearchResult& found, const std::vector<std::size_t>& list,
                                  std::size_t most) {
  std::vector<std::size_t> indices;
  for (std::size_t k = 0; k < std::min(list.size(), most); ++k)
    indices.push_back(found.points[list[k]].index);
  return indices;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("no run is better than its kernels and its live bytes") {
    std::mt19937 random(7);
    const std::size_t points = test::runs_long_tests() ? 2200 : 154;
    std::map<std::string_view, int> held;
    for (std::size_t i = 0; i < points; ++i) {
      const std::string_view policy = kPolicies[i % std::size(kPolicies)];
      const std::string text = any_point(policy, random);
      CAPTURE(text);
      try {
        const Scenario scenario = decode(text);
        PointRunner runner(scenario);
        const PointResult by_prices = runner.bound_by_prices();
        const PointResult by_program = runner.bound_by_program();
        const PointResult result = runner.run({});
        CHECK(by_prices.run.step <= by_program.run.step);
        CHECK(by_prices.samples == result.samples);
        if (result.status != PointStatus::kFits) continue;
        ++held[policy];
        CHECK(by_program.run.step > Duration(0));
        const bool evicts = policy.starts_with("eviction");
        if (result.stages.empty() && !evicts) {
          CHECK(by_program.run.live.bytes == result.run.live.bytes);
          CHECK(by_program.run.most_live == result.run.most_live);
          CHECK(by_program.run.most_host <= result.run.most_host);
        }
        for (const PointResult* bound : {&by_prices, &by_program}) {
          CHECK_FALSE(prospect_of(*bound, Goal{}, scenario.device.figures).breaks);
          for (const std::string_view figure : kFigures)
            check_bound(*bound, result, figure, scenario.device.figures);
        }
      } catch (const UserError&) {  // not every combination makes sense
      }
    }
    for (const std::string_view policy : kPolicies) {
      CAPTURE(policy);
      CHECK(held[policy] > 0);
    }
  }

  TEST_CASE("a search finds the same without the points that cannot be an answer") {
    std::mt19937 random(11);
    const int spaces = test::runs_long_tests() ? 100 : 8;
    constexpr std::size_t kAnswers = 3;
    std::size_t simulated = 0;
    std::size_t all_points = 0;
    for (int i = 0; i < spaces; ++i) {
      const std::string text = any_space(random);
      CAPTURE(text);
      const SearchResult all = search_of(text, true, kAnswers);
      const SearchResult few = search_of(text, false, kAnswers);
      REQUIRE(all.excluded.empty());
      REQUIRE(few.space() == all.points.size());
      simulated += few.points.size();
      all_points += all.points.size();
      CHECK(in_sweep(few, few.front, few.front.size()) ==
            in_sweep(all, all.front, all.front.size()));
      if (all.goal.objectives.size() == 1) {
        CHECK(in_sweep(few, few.ranking, kAnswers) == in_sweep(all, all.ranking, kAnswers));
      }
      const Proof proof = proof_of(few);
      CHECK(proof_of(all).assumed == 0);
      if (proof.bound && !all.ranking.empty()) {
        const double best = all.points[all.ranking.front()].objectives.front();
        CHECK((all.goal.maximize ? best <= *proof.bound : best >= *proof.bound));
      }
      for (const SearchPoint& point : few.points) {
        CHECK(point.objectives.size() == all.goal.objectives.size());
        if (point.feasible) CHECK(point.objectives == all.points[point.index].objectives);
        CHECK(point.feasible == all.points[point.index].feasible);
      }
      for (const ExcludedPoint& point : few.excluded) {
        const SearchPoint& real = all.points[point.index];
        if (!point.breaks) {
          if (real.feasible)
            CHECK_FALSE(dominates(real.objectives, point.objectives, all.goal.maximize));
          continue;
        }
        const auto same = std::find_if(
            real.breaks.begin(), real.breaks.end(),
            [&](const Breach& breach) { return breach.constraint == point.breaks->constraint; });
        REQUIRE(same != real.breaks.end());
        if (std::isfinite(same->by) && !point.breaks->constraint)
          CHECK(point.breaks->by <= same->by);
      }
    }
    MESSAGE(simulated << " of " << all_points << " points simulated");
    CHECK(2 * simulated < all_points);
  }

  TEST_CASE("what a search simulates does not depend on the threads") {
    std::mt19937 random(3);
    const std::string text = any_space(random);
    const SearchResult one = search_of(text, false, 2, 1);
    const SearchResult four = search_of(text, false, 2, 4);
    REQUIRE(one.points.size() == four.points.size());
    for (std::size_t i = 0; i < one.points.size(); ++i)
      CHECK(one.points[i].index == four.points[i].index);
    CHECK(one.ranking == four.ranking);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("what is taken not to fit makes an answer proven but for it") {
    // Live bytes fall where tensors become large enough to be moved: 96 samples fit, and fewer do
    // not.
    const std::string saw =
        "{model: {preset: gpt2, layers: 12, vocab: 512}, hardware: {gpu: a100-sxm-40gb, hbm: "
        "{capacity: 2290MiB}}, training: {sequence: 128, precision: bf16, optimizer: sgd}, "
        "policies: [offload_activations: {prefetch: 1, min_bytes: 18MiB}], sweep: {matrix: "
        "{training.micro_batch: {from: 40, to: 2000}}}, goal: {maximize: model.step_flops}}";
    const SearchResult found = search_of(saw, false, 1);
    REQUIRE_FALSE(found.ranking.empty());
    const double best = found.points[found.ranking.front()].objectives.front();
    const Proof proof = proof_of(found);
    CHECK(proof.assumed > 0);
    if (proof.bound) CHECK(*proof.bound > best);
    // All points of a narrower sweep are looked at.
    std::string narrow = saw;
    narrow.replace(narrow.find("{from: 40, to: 2000}"), 20, "[40, 41, 42]");
    const SearchResult whole = search_of(narrow, false, 1);
    CHECK(proof_of(whole).assumed == 0);
    const auto document = search_document(found);
    CHECK(document["search"]["proven"] == false);
    CHECK(search_document(whole)["search"]["proven"] == true);
  }

  TEST_CASE("a wide range of micro-batches takes few simulations") {
    const SearchResult found = search_of(
        "{model: {preset: gpt2, layers: 2}, hardware: v100-sxm-16gb, training: {sequence: 1024}, "
        "sweep: {matrix: {training.micro_batch: {from: 1, to: 300}}}}",
        false, 1);
    REQUIRE(found.ranking.size() >= 1);
    CHECK(found.space() == 300);
    CHECK(found.points.size() <= 30);
    const auto by_smaller =
        std::count_if(found.excluded.begin(), found.excluded.end(),
                      [](const ExcludedPoint& point) { return point.by_smaller; });
    CHECK(by_smaller > 100);
    for (const ExcludedPoint& point : found.excluded) {
      if (point.by_smaller) CHECK(point.breaks.has_value());
    }
  }

  TEST_CASE("a search sees that memory does not grow, and that its ends are rounded") {
    // Twelve samples take less than ten where megatron_offload moves them.
    const std::string saws =
        "{model: resnet18, hardware: {gpu: a100-sxm-40gb, hbm: {capacity: 290MB}}, allocator: "
        "ideal, policies: [megatron_offload], sweep: {matrix: {training.micro_batch: {from: 8, to: "
        "14, step: 2}}}}";
    const SearchResult all = search_of(saws, true, 2);
    const SearchResult few = search_of(saws, false, 2);
    CHECK(in_sweep(few, few.ranking, 2) == in_sweep(all, all.ranking, 2));
    CHECK(in_sweep(all, all.ranking, 2) == std::vector<std::size_t>{0, 2});
    // 49 * (1 / 49) is not 1: a quotient's ends are quotients.
    const RangeLookup figures = [](std::string_view name) -> FigureRange {
      const double value = name == "a" ? 49 * 64 : 49;
      return {.least = value, .most = value};
    };
    CHECK(Expression("a / b >= 64", true).can_hold(figures));
  }

  TEST_CASE("a faulty point beside good ones ends no search, nor does a fault in a figure") {
    const std::string priced =
        "{model: {preset: gpt2, layers: 1}, hardware: v100-sxm-16gb, training: {sequence: 64}, "
        "goal: {minimize: cost}, sweep: {matrix: {hardware: [a100-sxm-40gb, {gpu: v100-sxm-16gb, "
        "price: 2}]}}}";
    const SearchResult found = search_of(priced, false, 1);
    REQUIRE(found.points.size() == 2);
    CHECK(found.points[0].result.status == PointStatus::kError);
    CHECK(found.ranking == std::vector<std::size_t>{1});
    const std::string error = error_of([&] {
      static_cast<void>(search_of(
          "{model: {preset: gpt2, layers: 1}, hardware: v100-sxm-16gb, goal: {minimize: "
          "policies.rotor.gapp}, sweep: {matrix: {training.micro_batch: [1, 4096], policies: [[], "
          "[rotor]]}}}",
          false, 1));
    });
    CHECK(error.find("no point has the figure 'policies.rotor.gapp'") != std::string::npos);
  }

  TEST_CASE("ranges of figures make ranges of expressions") {
    const RangeLookup figures = [](std::string_view name) -> FigureRange {
      if (name == "a") return {.least = 2, .most = 4};
      if (name == "b") return {.least = -1, .most = 3};
      if (name == "up") return {.least = 5};
      return {};
    };
    const auto range = [&](const std::string& text) {
      const FigureRange found = Expression(text, false).range(figures);
      return fmt::format("{} {}", found.least, found.most);
    };
    CHECK(range("a + b") == "1 7");
    CHECK(range("a - b") == "-1 5");
    CHECK(range("a * b") == "-4 12");
    CHECK(range("12 / a") == "3 6");
    CHECK(range("1 / b") == "-inf inf");
    CHECK(range("10 / up") == "0 2");
    CHECK(range("2 * up") == "10 inf");
    CHECK(range("up - up") == "-inf inf");
    CHECK(range("0 * up") == "0 0");
    CHECK(range("unknown") == "-inf inf");
    const auto can_hold = [&](const std::string& text) {
      return Expression(text, true).can_hold(figures);
    };
    CHECK(can_hold("a <= 2"));
    CHECK_FALSE(can_hold("a < 2"));
    CHECK_FALSE(can_hold("a >= 5"));
    CHECK(can_hold("up >= 1000"));
    CHECK_FALSE(can_hold("up <= 4"));
    CHECK(can_hold("unknown <= -7"));
    CHECK(Expression("up <= 4", true).least_excess(figures) == 1);
  }
}

}  // namespace tidemark::search_bounds_test
