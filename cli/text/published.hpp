// What a paper says beside what was simulated: the scenario's `published`, a list of texts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/core/document.hpp"

namespace tidemark {

// Of all documents, in their order.
[[nodiscard]] std::vector<std::string> published_of(std::span<const Value> documents);
// Such lines below a table; empty where there are none.
[[nodiscard]] std::string published_text(const std::vector<std::string>& lines, bool colour);

}  // namespace tidemark
