// What a paper says beside what was simulated: the scenario's `published`, a list of texts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/core/document.hpp"

namespace tidemark {

// Of all documents, in their order.
[[nodiscard]] std::vector<std::string> published_of(std::span<const Value> documents);
// Below a table; empty where nothing is given.
[[nodiscard]] std::string published_text(std::span<const Value> documents, bool colour);

}  // namespace tidemark
