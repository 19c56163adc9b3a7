// A JSON Schema of scenarios, for editors: completion, hints and the obvious mistakes. What the
// schema lets pass is still checked when a scenario is read.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Returns the schema (draft 7), made from what the decoders of training, allocators and policies
// ask for.
[[nodiscard]] nlohmann::ordered_json scenario_schema(const Environment& environment);

}  // namespace tidemark
