// Finds changes that make a point fit, by simulating them.
#pragma once

#include <vector>

#include "scenarios/read/scenario.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark {

// Simulates changes to a scenario that has run out of device memory, the least intrusive first:
//   0  the whole device instead of a memory_fraction of it, where the live bytes would fit into it
//   1  options of the torch allocator, where the live bytes would fit into what it may reserve
//   2  changes that affect no result and hardly the time: zero_grad none, other optimizer kernels
//   3  policies: recomputation, offloading, both; then the fewest blocks that must be recomputed
//   and
//      the least part that must be offloaded, by bisection
//   4  the largest smaller micro_batch that can be accumulated to the same samples per step, found
//   by
//      bisection, alone and with recomputation
// Stops after the first group in which something fits; of groups 0, 1, 2 and 4 at the first that
// does. Changes that are in force already or make no sense for the model are left out. `document`
// is `scenario`, `point` its result. Empty where the host has run out and where the context, or
// parameters, gradients and optimizer state alone, do not fit.
[[nodiscard]] std::vector<Suggestion> suggest_changes(const Value& document,
                                                      const Scenario& scenario,
                                                      const TrainedModel& model,
                                                      const Environment& environment,
                                                      const PointResult& point);

// Returns the change that fits with the shortest step, the first of equals; null where none fits.
[[nodiscard]] const Suggestion* cheapest_that_fits(const std::vector<Suggestion>& tried);

}  // namespace tidemark
