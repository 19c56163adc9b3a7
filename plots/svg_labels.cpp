#include "plots/svg_labels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace tidemark {

// Covers a slanted stroke with boxes of a few pixels.
void SvgLabels::keep_off(double x0, double y0, double x1, double y1) {
  constexpr double kPiece = 6;
  const bool straight = x0 == x1 || y0 == y1;
  const double longer = std::max(std::abs(x1 - x0), std::abs(y1 - y0));
  const int pieces = straight ? 1 : static_cast<int>(std::ceil(longer / kPiece));
  for (int i = 0; i < pieces; ++i) {
    const double from = static_cast<double>(i) / pieces;
    const double to = static_cast<double>(i + 1) / pieces;
    const auto [left, right] = std::minmax({x0 + (x1 - x0) * from, x0 + (x1 - x0) * to});
    const auto [top, bottom] = std::minmax({y0 + (y1 - y0) * from, y0 + (y1 - y0) * to});
    strokes_.push_back({left - 1, top - 1, right + 1, bottom + 1});
  }
}

bool SvgLabels::takes(const SvgBox& box) const {
  return std::any_of(taken_.begin(), taken_.end(),
                     [&](const SvgBox& other) { return box.meets(other); });
}

bool SvgLabels::is_free(const SvgBox& box, bool off_strokes) const {
  const bool inside = box.left >= plot_.left && box.right <= plot_.right &&
                      box.top >= plot_.top - 2 && box.bottom <= plot_.bottom;
  const auto meets = [&](const SvgBox& other) { return box.meets(other); };
  return inside && !takes(box) &&
         !(off_strokes && std::any_of(strokes_.begin(), strokes_.end(), meets));
}

bool SvgLabels::crosses(double x0, double y0, double x1, double y1) const {
  constexpr double kPiece = 4;
  const double length = std::hypot(x1 - x0, y1 - y0);
  const int pieces = std::max(1, static_cast<int>(length / kPiece));
  return std::any_of(taken_.begin(), taken_.end(), [&](const SvgBox& box) {
    const auto within = [&](double x, double y) {
      return x > box.left && x < box.right && y > box.top && y < box.bottom;
    };
    if (within(x0, y0)) return false;
    for (int i = 1; i < pieces; ++i) {
      const double part = static_cast<double>(i) / pieces;
      if (within(x0 + (x1 - x0) * part, y0 + (y1 - y0) * part)) return true;
    }
    return false;
  });
}

std::optional<SvgLabels::Place> SvgLabels::find(double x, double y, double width, double height,
                                                double least, bool off_strokes) const {
  constexpr double kFarthest = 120;
  constexpr double kRing = 10;
  constexpr double kAir = 0.01;  // tolerance for rounding
  constexpr std::array<std::pair<int, int>, 8> kDirections{
      {{1, -1}, {0, -1}, {-1, -1}, {1, 0}, {-1, 0}, {1, 1}, {0, 1}, {-1, 1}}};
  const double half = width / 2 + 1;
  for (int ring = 0; least + ring * kRing < kFarthest; ++ring) {
    const double away = least + ring * kRing;
    for (const auto& [dx, dy] : kDirections) {
      double cx = x + dx * (away + width / 2);
      const double cy = y + dy * (away + height / 2);
      // Above and below, a text moves as far as it must to stay on the plot.
      const double first = plot_.left + half + kAir;
      if (dx == 0) cx = std::clamp(cx, first, std::max(plot_.right - half - kAir, first));
      const SvgBox box{cx - half, cy - height / 2, cx + half, cy + height / 2};
      if (!is_free(box, off_strokes)) continue;
      if (away > kLeader &&
          crosses(x, y, std::clamp(x, box.left, box.right), std::clamp(y, box.top, box.bottom))) {
        continue;
      }
      return Place{.box = box, .side = dx, .away = away};
    }
  }
  return std::nullopt;
}

}  // namespace tidemark
