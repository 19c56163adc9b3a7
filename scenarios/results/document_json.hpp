// Writes a part of a document as JSON, on one line: the value of an override in results.
#pragma once

#include <string>

#include "graph/core/document.hpp"

namespace tidemark {

[[nodiscard]] std::string as_json(const Value& value);

}  // namespace tidemark
