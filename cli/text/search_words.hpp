// The answer of a search in words.
#pragma once

#include <cstddef>
#include <string>

#include "scenarios/studies/search/search.hpp"

namespace tidemark {

// Says which points are the answer, which would be better and what keeps them out, and why others
// were not simulated; of each kind at most `most`.
[[nodiscard]] std::string verdict_of(const SearchResult& found, std::size_t most, bool colour);

}  // namespace tidemark
