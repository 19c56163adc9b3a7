// The marks of charts: their shapes, and which of them share a label.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plots/svg_chart.hpp"

namespace tidemark {

inline constexpr double kMarkRadius = 4;  // pixels

// Returns the outline of a mark in pixels; none for kNone and kCircle.
[[nodiscard]] std::vector<PathStep> mark_outline(double x, double y, MarkShape shape);
[[nodiscard]] DrawnInk mark_ink(MarkShape shape, std::uint32_t rgb, bool hollow);

// Marks that cover each other.
struct MarkSpot {
  double x = 0;
  double y = 0;
  std::string words;
  std::string short_words;
  std::size_t others = 0;  // marks that the words leave out
};

// Returns the spots of marks. Marks on one spot have one label between them: letters all, names
// "optimal, and 2 more". Full ones are named first, those without a label never. `at` is the place
// of each in pixels.
[[nodiscard]] std::vector<MarkSpot> mark_spots(std::span<const SvgMark> marks,
                                               std::span<const SvgPoint> at);

}  // namespace tidemark
