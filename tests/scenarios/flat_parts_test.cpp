// Optimizers that work on matrices, where ranks update flat parts of them.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "policies/optimizers/catalogue.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::flat_parts_test {
namespace {

PointResult trained(std::string_view optimizer, std::string_view policies) {
  const Scenario scenario = decode(fmt::format(
      "{{model: {{preset: gpt2, layers: 2, width: 256, heads: 4, vocab: 512}}, hardware: {{gpu: "
      "h100-sxm-80gb, count: 2}}, training: {{sequence: 64, precision: fp32, optimizer: {}}}, "
      "policies: [{}]}}",
      optimizer, policies));
  return simulate(scenario, build_training(scenario), {.smallest_capacity = false});
}

bool warns(const PointResult& point) {
  return std::any_of(point.warnings.begin(), point.warnings.end(), [](const std::string& warning) {
    return warning.find("works on whole matrices") != std::string::npos;
  });
}

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("an optimizer to which flat parts of matrices make a difference says so") {
    for (const std::string_view name : optimizer_names()) {
      CAPTURE(name);
      const PointResult whole = trained(name, "");
      const PointResult parts = trained(name, "zero: {stage: 1}");
      CHECK_FALSE(warns(whole));
      CHECK(warns(parts) == !find_optimizer(name)->on_flat_parts.empty());
      // Two ranks hold the states of the model between them, padded.
      const auto of_whole = static_cast<double>(whole.optimizer_state.count);
      const auto of_two = 2 * static_cast<double>(parts.optimizer_state.count);
      const bool differs = std::abs(of_two - of_whole) > 0.02 * of_whole + 4096;
      if (differs) CHECK(warns(parts));
    }
  }
}

}  // namespace tidemark::flat_parts_test
