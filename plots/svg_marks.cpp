#include "plots/svg_marks.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tidemark {

std::string mark_ink(double x, double y, MarkShape shape, std::uint32_t rgb, bool hollow) {
  const std::string ink = fmt::format(" fill=\"{}\" stroke=\"#{:06x}\" stroke-width=\"1.4\"/>\n",
                                      hollow ? "#fff" : fmt::format("#{:06x}", rgb), rgb);
  const double r = kMarkRadius;
  switch (shape) {
    case MarkShape::kNone:
      return {};
    case MarkShape::kCircle:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\"", x, y, r) + ink;
    case MarkShape::kSquare:
      return fmt::format("<path d=\"M{:.1f} {:.1f}h{:g}v{:g}h{:g}Z\"", x - r, y - r, 2 * r, 2 * r,
                         -2 * r) +
             ink;
    case MarkShape::kTriangle:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l{:g} {:g}h{:g}Z\"", x, y - r, r, 2 * r, -2 * r) +
             ink;
    case MarkShape::kDiamond:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l{:g} {:g}l{:g} {:g}l{:g} {:g}Z\"", x, y - r - 1,
                         r + 1, r + 1, -r - 1, r + 1, -r - 1, -r - 1) +
             ink;
    case MarkShape::kCross:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l{:g} {:g}m0 {:g}l{:g} {:g}\"", x - r, y - r,
                         2 * r, 2 * r, -2 * r, -2 * r, 2 * r) +
             fmt::format(" fill=\"none\" stroke=\"#{:06x}\" stroke-width=\"1.8\"/>\n", rgb);
  }
  return {};
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
