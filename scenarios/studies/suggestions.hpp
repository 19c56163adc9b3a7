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
//   3  recomputation, offloading of activations, of optimizer states and of parameters, sharding
//      (FSDP) where several ranks hold the whole model, and their combinations where less does not
//      suffice; then, by bisection, the fewest blocks that must be recomputed and the least part
//      that must be offloaded; of states also beside recomputation, where a simulation is short
//   4  changes of the numbers that training computes: optimizers with smaller states, narrower
//      types, alone and with recomputation
//   5  the largest smaller micro_batch that can be accumulated to the same samples per step, found
//      by bisection; where nothing fits yet, with recomputation and with offloaded states, too
// Stops after one of the groups 0 to 2 in which something fits, at the first that does, and within
// group 3 where the step has so many operators that a simulation takes long. Changes that are in
// force already, that make no sense for the model, or that leave alone what does not fit by itself
// are left out. `document` is `scenario`, `point` its result. What fits comes first, the most
// samples per second before the others. Empty where the host has run out and where the context
// alone does not fit.
[[nodiscard]] std::vector<Suggestion> suggest_changes(const Value& document,
                                                      const Scenario& scenario,
                                                      const TrainedModel& model,
                                                      const Environment& environment,
                                                      const PointResult& point);

// Returns the change that fits with the most samples per second, among those that leave the numbers
// as they are if there is one; null where none fits.
[[nodiscard]] const Suggestion* best_that_fits(const std::vector<Suggestion>& tried);

}  // namespace tidemark
