// Shows which settings change each term of the peak.
#pragma once

#include <cstddef>
#include <string>

#include "scenarios/studies/detailed_point.hpp"

namespace tidemark {

// Returns a section of `tidemark explain`; empty where nothing can be changed.
[[nodiscard]] std::string explain_settings(const DetailedPoint& point, bool colour,
                                           std::size_t width);

}  // namespace tidemark
