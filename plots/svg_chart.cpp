#include "plots/svg_chart.hpp"

#include <algorithm>
#include <array>

namespace tidemark {

std::vector<SvgPoint> thin_line(const std::vector<SvgPoint>& points, bool steps, double begin,
                                double end, std::size_t pixels) {
  if (points.size() <= 2 || pixels == 0 || !(begin < end)) return points;
  std::vector<SvgPoint> kept{points.front()};
  const auto pixel_of = [&](double x) {
    const double share = std::clamp((x - begin) / (end - begin), 0.0, 1.0);
    return std::min(pixels - 1, static_cast<std::size_t>(share * static_cast<double>(pixels)));
  };
  for (std::size_t first = 1; first + 1 < points.size();) {
    std::size_t last = first;
    std::size_t low = first;
    std::size_t high = first;
    for (; last + 1 < points.size() && pixel_of(points[last].x) == pixel_of(points[first].x);
         ++last) {
      if (points[last].y < points[low].y) low = last;
      if (points[last].y > points[high].y) high = last;
    }
    if (!steps && low != high) kept.push_back(points[std::min(low, high)]);
    kept.push_back(points[steps ? high : std::max(low, high)]);
    first = last;
  }
  kept.push_back(points.back());
  return kept;
}

LineInk line_ink(std::size_t index) {
  struct Stroke {
    std::uint32_t rgb = 0;
    Dash dash = Dash::kSolid;
  };
  // Okabe and Ito's colours for colour-blind readers, dark and light in turn.
  static constexpr std::array<Stroke, 8> kStrokes{{{0x0b3c5d, Dash::kSolid},
                                                   {0xd55e00, Dash::kLong},
                                                   {0x009e73, Dash::kShort},
                                                   {0x6a3d7c, Dash::kDashDot},
                                                   {0x56b4e9, Dash::kSolid},
                                                   {0x8c6d00, Dash::kDotted},
                                                   {0xcc79a7, Dash::kLong},
                                                   {0x333333, Dash::kShort}}};
  static constexpr std::size_t kDashes = 5;
  // Marks that can be filled or hollow.
  static constexpr std::array<MarkShape, 7> kMarks{
      MarkShape::kCircle,       MarkShape::kSquare, MarkShape::kTriangle, MarkShape::kDiamond,
      MarkShape::kDownTriangle, MarkShape::kPlus,   MarkShape::kHexagon};
  static_assert(kStrokes.size() * kMarks.size() == kLineInks);
  const std::size_t colour = index % kStrokes.size();
  const std::size_t round = index / kStrokes.size();
  const auto dash = static_cast<std::size_t>(kStrokes[colour].dash);
  // With each round a colour gets the mark after next: of seven marks, all in seven rounds.
  return {.rgb = kStrokes[colour].rgb,
          .dash = static_cast<Dash>((dash + round) % kDashes),
          .mark = kMarks[(colour + 2 * round) % kMarks.size()]};
}

}  // namespace tidemark
