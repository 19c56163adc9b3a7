#include "plots/svg_marks.hpp"

#include <algorithm>
#include <cmath>

namespace tidemark {

std::vector<PathStep> mark_outline(double x, double y, MarkShape shape) {
  const double r = kMarkRadius;
  const double arm = r / 2.4;  // half the width of a plus' bars
  std::vector<SvgPoint> corners;
  switch (shape) {
    case MarkShape::kNone:
    case MarkShape::kCircle:
      return {};
    case MarkShape::kSquare:
      corners = {{-r, -r}, {r, -r}, {r, r}, {-r, r}};
      break;
    case MarkShape::kTriangle:
      corners = {{0, -r}, {r, r}, {-r, r}};
      break;
    case MarkShape::kDownTriangle:
      corners = {{0, r}, {r, -r}, {-r, -r}};
      break;
    case MarkShape::kDiamond:
      corners = {{0, -r - 1}, {r + 1, 0}, {0, r + 1}, {-r - 1, 0}};
      break;
    case MarkShape::kPlus:
      corners = {{-arm, -r - 1}, {arm, -r - 1}, {arm, -arm},    {r + 1, -arm},
                 {r + 1, arm},   {arm, arm},    {arm, r + 1},   {-arm, r + 1},
                 {-arm, arm},    {-r - 1, arm}, {-r - 1, -arm}, {-arm, -arm}};
      break;
    case MarkShape::kHexagon:
      corners = {{-r - 1, 0}, {-r / 2, -r}, {r / 2, -r}, {r + 1, 0}, {r / 2, r}, {-r / 2, r}};
      break;
    case MarkShape::kCross:
      return {{PathStep::Kind::kMove, x - r, y - r},
              {PathStep::Kind::kLine, x + r, y + r},
              {PathStep::Kind::kMove, x + r, y - r},
              {PathStep::Kind::kLine, x - r, y + r}};
  }
  std::vector<PathStep> steps;
  steps.reserve(corners.size() + 1);
  for (const SvgPoint& corner : corners) {
    steps.push_back({steps.empty() ? PathStep::Kind::kMove : PathStep::Kind::kLine, x + corner.x,
                     y + corner.y});
  }
  steps.push_back({PathStep::Kind::kClose});
  return steps;
}

DrawnInk mark_ink(MarkShape shape, std::uint32_t rgb, bool hollow) {
  if (shape == MarkShape::kCross) return {.stroke = rgb, .width = 1.8};
  return {.fill = hollow ? 0xffffff : rgb, .stroke = rgb, .width = 1.4};
}

std::vector<MarkSpot> mark_spots(std::span<const SvgMark> marks, std::span<const SvgPoint> at) {
  std::vector<MarkSpot> spots;
  for (const bool hollow : {false, true}) {
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const SvgMark& mark = marks[i];
      if (mark.hollow != hollow || mark.label.empty()) continue;
      const auto [x, y] = at[i];
      const auto near = std::find_if(spots.begin(), spots.end(), [&](const MarkSpot& spot) {
        return std::hypot(spot.x - at[i].x, spot.y - at[i].y) < kMarkRadius;
      });
      if (near == spots.end()) {
        spots.push_back({.x = x, .y = y, .words = mark.label, .short_words = mark.short_label});
      } else if (mark.label.size() == 1) {
        near->words += ", " + mark.label;
      } else {
        ++near->others;
      }
    }
  }
  return spots;
}

}  // namespace tidemark
