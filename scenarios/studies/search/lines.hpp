// Points of a sweep that differ in one number, with which the memory that they need grows.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "sim/step/override.hpp"

namespace tidemark {

// Keys with which the live bytes of a step grow, whatever else is the same.
inline constexpr std::array<std::string_view, 2> kGrowing{"training.micro_batch",
                                                          "training.sequence"};

// Returns the points, by index, in lines along a key: those of a line agree in all other overrides,
// smallest number first. Every line has several points; points without the key are in none.
[[nodiscard]] std::vector<std::vector<std::size_t>> lines_along(
    std::string_view key, std::span<const std::vector<Override>> points);

}  // namespace tidemark
