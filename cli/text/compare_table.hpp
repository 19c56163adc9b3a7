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
// Returns the policies of the run behind a point, with the budget where it is one of several runs
// of these policies: "optimal, 2.34 GiB".
[[nodiscard]] std::string run_label(const Comparison& comparison, const ComparePoint& point);

}  // namespace tidemark
