// Parts of documents as JSON: the values of overrides in results.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "graph/core/document.hpp"

namespace tidemark {

// Returns the value as JSON: texts that look like numbers, and are not quoted, are numbers.
[[nodiscard]] nlohmann::ordered_json to_json(const Value& value);
// Returns the value that to_json() made `json` of, without its location.
[[nodiscard]] Value from_json(const nlohmann::ordered_json& json);

// Writes the same JSON on one line, with numbers as they are spelled.
[[nodiscard]] std::string as_json(const Value& value);

}  // namespace tidemark
