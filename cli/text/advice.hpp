// Explains a point that does not fit.
#pragma once

#include <string>
#include <vector>

#include "cli/text/wording.hpp"
#include "graph/core/units.hpp"

namespace tidemark {

struct Environment;

// Returns the GPUs on which a point that needs `bytes` would fit, smallest first.
[[nodiscard]] std::vector<std::string> gpus_with(Bytes bytes, const Environment& environment);

// Returns sentences about a point that does not fit: the request that failed and its place, what
// was live, which tensors keep free memory from the request, what it needs, and what would help.
// Lines end with '\n'.
[[nodiscard]] std::string explain_failure(const PointResult& point, const Environment& environment,
                                          bool colour, std::size_t width);

}  // namespace tidemark
