// The parts of a scenario's JSON Schema that no list of parameters tells: models, hardware, and
// what is asked of the points.
#pragma once

#include <nlohmann/json.hpp>

#include "graph/core/decoder.hpp"
#include "scenarios/read/scenario.hpp"

namespace tidemark {

// Returns a schema of these types: {"type": ["string", "null"]}.
[[nodiscard]] nlohmann::ordered_json json_types(std::initializer_list<const char*> names);
// Returns the schema of one parameter, with its limits and default. Words and lists may have long
// forms, which the note of a parameter does not tell; null is the same as leaving a key out.
[[nodiscard]] nlohmann::ordered_json parameter_schema(const ParameterNote& note);

// Each returns the schema of one key of a scenario.
[[nodiscard]] nlohmann::ordered_json model_schema();
[[nodiscard]] nlohmann::ordered_json hardware_schema(const Environment& environment);
[[nodiscard]] nlohmann::ordered_json sweep_schema();
[[nodiscard]] nlohmann::ordered_json compare_schema();
[[nodiscard]] nlohmann::ordered_json goal_schema();
[[nodiscard]] nlohmann::ordered_json published_schema();
[[nodiscard]] nlohmann::ordered_json report_schema();

}  // namespace tidemark
