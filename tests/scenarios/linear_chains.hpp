// Chains of linear layers on GPUs with room for all of them: the steps that sharding is computed on
// by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::test {

using Widths = std::vector<std::int64_t>;

// Returns a model of a block for each width: `linears` linear layers with biases, weights [next,
// width], and an activation.
inline std::string chain(const Widths& widths, int linears = 1) {
  std::string layers;
  for (std::size_t i = 1; i < widths.size(); ++i) {
    layers += i == 1 ? "{block: [" : ", {block: [";
    for (int l = 0; l < linears; ++l)
      layers += fmt::format("{{linear: {}}}, ", widths[i]);
    layers += "gelu]}";
  }
  return fmt::format("{{layers: {{name: chain, inputs: {{x: [batch, {}]}}, layers: [{}]}}}}",
                     widths.front(), layers);
}

// Returns the elements of a chain's parameters.
inline std::int64_t elements(const Widths& widths) {
  std::int64_t sum = 0;
  for (std::size_t i = 1; i < widths.size(); ++i)
    sum += widths[i] * (widths[i - 1] + 1);
  return sum;
}

// Returns the scenario that trains a model on `gpus`, "count: 8, node: 1024".
inline std::string chain_text(const std::string& model, const std::string& gpus,
                              const std::string& policies, const std::string& training) {
  return fmt::format(
      "{{model: {}, hardware: {{gpu: h100-sxm-80gb, hbm: {{capacity: 8TiB}}, {}}}, training: "
      "{{micro_batch: 2, loss: mse, {}}}, allocator: ideal, policies: [{}]}}",
      model, gpus, training, policies);
}

// Simulates a scenario, which has to fit.
inline PointResult simulate_fitting(const std::string& text) {
  const PointResult point = simulate_points(parse_document(text, "s.yaml"), environment(), 1,
                                            {.smallest_capacity = false})
                                .front();
  REQUIRE_MESSAGE(point.status == PointStatus::kFits, point.error);
  return point;
}

}  // namespace tidemark::test
