// Shows the largest value that fits for each point of a sweep.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "scenarios/studies/fit.hpp"

namespace tidemark {

// Returns the reason why a point does not fit, or cannot be built.
[[nodiscard]] std::string reason_of(const PointResult& point);

// Returns a row per point: what it changes, the largest value of `key` that fits, its memory, time
// and rate, and what stops the next value.
[[nodiscard]] std::string fit_table(std::span<const PointFit> fits, const FitOptions& options,
                                    bool colour, std::size_t width);

}  // namespace tidemark
