// Blocks in narrower types: by name, and as few as meet a budget.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/compile.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::adaptive_precision_test {
namespace {

PointResult stepped(const std::string& policies, std::string_view training = "precision: fp32") {
  const Scenario step = decode(fmt::format(
      "model: {{preset: gpt, layers: 3, width: 64, heads: 4, vocab: 128, sequence: 64}}\n"
      "hardware: h100-sxm-80gb\nallocator: ideal\n"
      "training: {{micro_batch: 16, optimizer: sgd, {}}}\npolicies: [{}]\n",
      training, policies));
  return simulate(step, build_training(step), {.smallest_capacity = false});
}

std::int64_t peak(const PointResult& point) {
  return point.run.live.bytes.count;
}

// The rounding of a choice, in units of a block in bf16: fp8 has 4 digits where bf16 has 8.
constexpr int kFp8 = 16;

struct Choice {
  int cost = 0;
  std::int64_t peak = 0;
};

// All choices of three blocks, said by their names.
std::vector<Choice> all_choices(const std::string& more) {
  std::vector<Choice> choices;
  for (int code = 0; code < 27; ++code) {
    std::string policies = more;
    int cost = 0;
    for (int b = 0, rest = code; b < 3; ++b, rest /= 3) {
      if (rest % 3 == 0) continue;
      cost += rest % 3 == 1 ? 1 : kFp8;
      policies += fmt::format("{}layer_precision: {{layers: [h.{}], precision: {}}}",
                              policies.empty() ? "" : ", ", b, rest % 3 == 1 ? "bf16" : "fp8");
    }
    choices.push_back({cost, peak(stepped(policies))});
  }
  return choices;
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("no other choice of types within the budget is cheaper than the adaptive one") {
    for (const std::string more : {"", "checkpoint_every: {period: 1}"}) {
      const std::vector<Choice> choices = all_choices(more);
      std::vector<std::int64_t> peaks;
      for (const Choice& choice : choices)
        peaks.push_back(choice.peak);
      std::sort(peaks.begin(), peaks.end());
      CHECK(peaks.front() < choices.front().peak);
      for (const std::size_t at : {std::size_t{0}, peaks.size() / 4, peaks.size() / 2}) {
        int best = 3 * kFp8 + 1;
        for (const Choice& choice : choices) {
          if (choice.peak <= peaks[at]) best = std::min(best, choice.cost);
        }
        const PointResult found =
            stepped(fmt::format("{}{}adaptive_precision: {{allowed: [fp8, bf16], budget: {}}}",
                                more, more.empty() ? "" : ", ", peaks[at]));
        CHECK(found.status == PointStatus::kFits);
        CHECK(peak(found) <= peaks[at]);
        // Among choices of the same cost and peak it is one of the best.
        const bool as_cheap = std::any_of(choices.begin(), choices.end(), [&](const Choice& c) {
          return c.cost == best && c.peak == peak(found);
        });
        CHECK(as_cheap);
      }
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("a budget that no types meet is missed by the least that there is") {
    const PointResult missed = stepped("adaptive_precision: {budget: 1MiB}");
    CHECK(missed.status == PointStatus::kInfeasible);
    REQUIRE_FALSE(missed.warnings.empty());
    CHECK(missed.warnings.front().find("more than a budget of 1 MiB") != std::string::npos);
    const PointResult kept = stepped("adaptive_precision: {budget: 10GiB}");
    CHECK(peak(kept) == peak(stepped("")));
    CHECK(kept.warnings.front().find("no block is lowered") != std::string::npos);
  }

  TEST_CASE("types that are not narrower, and blocks that are not there, are errors") {
    const PointResult nothing =
        stepped("adaptive_precision: {allowed: [bf16, fp32]}", "precision: bf16");
    REQUIRE_FALSE(nothing.warnings.empty());
    CHECK(nothing.warnings.front().find("can be lowered to fp8") != std::string::npos);
    CHECK(peak(nothing) == peak(stepped("", "precision: bf16")));
    CHECK_THROWS_WITH_AS(stepped("adaptive_precision: {allowed: [fp88]}"),
                         doctest::Contains("did you mean 'fp8'"), UserError);
    CHECK_THROWS_WITH_AS(stepped("layer_precision: {layers: [blocks.1]}"),
                         doctest::Contains("'h.0'"), UserError);
    CHECK_THROWS_WITH_AS(stepped("layer_precision: {precision: bf16}", "precision: bf16"),
                         doctest::Contains("lowered to fp8"), UserError);
  }

  TEST_CASE("blocks in bf16 keep less than in fp32, and fp8 goes with models of 16 bits") {
    const std::int64_t blocks = peak(stepped("layer_precision: {precision: bf16}"));
    CHECK(blocks < peak(stepped("")));
    CHECK(stepped("layer_precision: {precision: fp8}", "precision: bf16").status ==
          PointStatus::kFits);
    CHECK(stepped("layer_precision: {precision: fp8}", "precision: bf16_autocast").status ==
          PointStatus::kFits);
  }
}

}  // namespace tidemark::adaptive_precision_test
