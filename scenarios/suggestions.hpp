// What would make a point fit: tried, not guessed.
#pragma once

#include <vector>

#include "scenarios/simulate.hpp"

namespace tidemark {

// Simulates changes to a scenario that has run out of device memory, the least intrusive first:
//   1 options of the torch allocator, where the live bytes would fit
//   2 what changes no result and hardly the time: zero_grad none, other optimizer kernels
//   3 policies: recomputation, offloading, both
//   4 a smaller micro_batch that is accumulated to the same samples per step, alone and with 3
// Stops after the first group in which something fits; of groups 1, 2 and 4 at the first that does.
// What is in force already or makes no sense for the model is left out. `document` is `scenario`,
// `point` its result. Empty where the host has run out.
[[nodiscard]] std::vector<Suggestion> suggest_changes(const Value& document,
                                                      const Scenario& scenario,
                                                      const TrainedModel& model,
                                                      const Environment& environment,
                                                      const PointResult& point);

}  // namespace tidemark
