// Figures that a paper reports for a scenario: its key `published`, a list of texts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/core/document.hpp"

namespace tidemark {

// Returns the figures that scenario documents list under `published`, in the documents' order.
[[nodiscard]] std::vector<std::string> published_of(std::span<const Value> documents);
// Returns the published figures as they are printed below a table; empty where there are none.
[[nodiscard]] std::string published_text(const std::vector<std::string>& lines, bool colour);

}  // namespace tidemark
