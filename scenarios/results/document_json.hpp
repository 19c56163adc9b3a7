// A part of a document as JSON, on one line: what an override's value is in results.
#pragma once

#include <string>

#include "graph/core/document.hpp"

namespace tidemark {

[[nodiscard]] std::string as_json(const Value& value);

}  // namespace tidemark
