// The table of a comparison.
#pragma once

#include <cstddef>
#include <string>

#include "scenarios/studies/compare.hpp"

namespace tidemark {

// Returns a row per point, in their order. `width` 0: no limit.
[[nodiscard]] std::string compare_table(const Comparison& comparison, bool colour,
                                        std::size_t width);

// Returns the policies of a point: "optimal + offload_activations".
[[nodiscard]] std::string policies_label(const ComparePoint& point);

}  // namespace tidemark
