// Shows which settings change each term of the peak.
#pragma once

#include <cstddef>
#include <string>

#include "scenarios/studies/detailed_point.hpp"
#include "scenarios/studies/more_gpus.hpp"

namespace tidemark {

// Returns the section of `tidemark explain` on what twice the GPUs would share of the terms;
// `peak`: the live bytes here.
[[nodiscard]] std::string explain_more_gpus(const MoreGpus& more, Bytes peak, bool colour,
                                            std::size_t width);

// Returns a section of `tidemark explain`; empty where nothing can be changed.
[[nodiscard]] std::string explain_settings(const DetailedPoint& point, bool colour,
                                           std::size_t width);

}  // namespace tidemark
