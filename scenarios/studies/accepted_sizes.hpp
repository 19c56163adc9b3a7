// What to write where the GPUs cannot be divided as the policies ask.
#pragma once

#include "graph/core/value.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Decodes a scenario that stands alone, as no point of a sweep does. Where its GPUs cannot be
// divided, the error has the sizes and counts next to the document's that its model can be built
// with, each tried.
[[nodiscard]] Scenario decode_alone(const Value& document, const Environment& environment);

}  // namespace tidemark
