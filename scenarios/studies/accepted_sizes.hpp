// Sizes that an error suggests where the GPUs cannot be divided as the policies ask.
#pragma once

#include "graph/core/value.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Decodes a scenario that is no point of a sweep. Where its GPUs cannot be divided as its policies
// ask, the error names the nearest other sizes and counts with which the model can be built: each
// has been tried.
[[nodiscard]] Scenario decode_alone(const Value& document, const Environment& environment);

}  // namespace tidemark
