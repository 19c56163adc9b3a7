// What would make a point fit: tried, not guessed.
#pragma once

#include <string>
#include <vector>

#include "cli/wording.hpp"

namespace tidemark {

struct Remedy {
  std::string change;  // as in a scenario: "policies: [checkpoint_every: {period: 1}]"
  bool fits = false;
  std::int64_t device_used = 0;
  Duration step{};
};

// Simulates the scenario with what is usually changed first: recomputation, offloading, both, and a
// smaller micro-batch that is accumulated to the same samples per step. Changes that are in force
// already, or that make no sense for the model, are left out.
[[nodiscard]] std::vector<Remedy> try_remedies(const Value& document, const Scenario& scenario,
                                               const TrainedModel& model,
                                               const Environment& environment);

// The GPUs on which a point that needs `bytes` would fit, smallest first.
[[nodiscard]] std::vector<std::string> gpus_with(std::int64_t bytes,
                                                 const Environment& environment);

// The sentences of a point that does not fit: what was asked for where, what was live, what it
// needs, and what would help. Lines end with '\n'.
[[nodiscard]] std::string explain_failure(const PointResult& point, const Value& document,
                                          const Scenario& scenario, const TrainedModel& model,
                                          const Environment& environment, bool colour,
                                          std::size_t width);

}  // namespace tidemark
