// The figures of generated text as lines of a point's summary.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/result/generation.hpp"

namespace tidemark {

// Returns labels and words, in the order in which they are shown.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> generation_lines(
    const GenerationFigures& generation);

}  // namespace tidemark
