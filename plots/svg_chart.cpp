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
  // Inks in Okabe and Ito's colours for colour-blind readers, dark and light in turn.
  static constexpr std::array<LineInk, 8> kInks{{
      {0x0b3c5d, Dash::kSolid, MarkShape::kCircle},
      {0xd55e00, Dash::kLong, MarkShape::kSquare},
      {0x009e73, Dash::kShort, MarkShape::kTriangle},
      {0x6a3d7c, Dash::kDashDot, MarkShape::kDiamond},
      {0x56b4e9, Dash::kSolid, MarkShape::kSquare},
      {0x8c6d00, Dash::kDotted, MarkShape::kCircle},
      {0xcc79a7, Dash::kLong, MarkShape::kTriangle},
      {0x333333, Dash::kShort, MarkShape::kDiamond},
  }};
  return kInks[index % kInks.size()];
}

std::string xml_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\n':
      case '\t':
        result += ' ';
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return result;
}

}  // namespace tidemark
