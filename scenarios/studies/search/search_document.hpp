// A search as a document: the points that were simulated, the answer, and why others are none.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "scenarios/studies/search/search.hpp"

namespace tidemark {

// Returns the result document of the simulated points with `search` beside them. Indices are places
// in its points.
[[nodiscard]] nlohmann::ordered_json search_document(const SearchResult& found);

}  // namespace tidemark
