// Draws the inside of the plot of an SVG chart: areas, lines, guides and marks with their labels.
#include <algorithm>
#include <cmath>
#include <optional>

#include "plots/svg_writer.hpp"

namespace tidemark {
namespace svg_layers_detail {
namespace {

std::string_view dashes(Dash dash) {
  constexpr std::string_view kDashes[] = {"", "8 4", "4 3", "1.5 3", "8 3 1.5 3"};
  return kDashes[static_cast<std::size_t>(dash)];
}

}  // namespace
}  // namespace svg_layers_detail

// Writes the ink of an area: its colour under hatching.
void SvgWriter::pattern(std::size_t index, const SvgArea& area) {
  constexpr std::string_view kStrokes[] = {"",
                                           "M-2 2L2 -2M0 8L8 0M6 10L10 6",
                                           "M-2 6L2 10M0 0L8 8M6 -2L10 2",
                                           "M0 8L8 0M0 0L8 8",
                                           "M0 4H8",
                                           "M4 0V8",
                                           "M4 3.9V4.1"};
  const auto hatch = static_cast<std::size_t>(area.hatch);
  // The hatching is dark on light inks and light on dark ones (ITU-R BT.601 luma).
  const double luma = 0.299 * static_cast<double>(area.rgb >> 16U & 255U) +
                      0.587 * static_cast<double>(area.rgb >> 8U & 255U) +
                      0.114 * static_cast<double>(area.rgb & 255U);
  definitions_ += fmt::format(
      "<pattern id=\"a{}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">"
      "<rect width=\"8\" height=\"8\" fill=\"#{:06x}\"/><path d=\"{}\" stroke=\"{}\" "
      "stroke-width=\"{}\"{}/></pattern>\n",
      index, area.rgb, kStrokes[hatch], luma > 110 ? "#333" : "#eee",
      area.hatch == Hatch::kDots ? "2" : "1",
      area.hatch == Hatch::kDots ? " stroke-linecap=\"round\"" : "");
}

void SvgWriter::areas() {
  const std::vector<double>& edges = chart_.column_edges;
  if (edges.size() < 2) return;
  const std::size_t columns = edges.size() - 1;
  std::vector<double> lower(columns, 0);
  std::vector<double> upper(columns, 0);
  for (std::size_t a = 0; a < chart_.areas.size(); ++a) {
    const SvgArea& area = chart_.areas[a];
    for (std::size_t c = 0; c < columns; ++c)
      upper[c] = lower[c] + area.heights[c];
    const bool hatched = area.hatch != Hatch::kNone;
    if (hatched) pattern(a, area);
    put("<path fill=\"{}\" stroke=\"#fff\" stroke-width=\"0.4\" d=\"",
        hatched ? fmt::format("url(#a{})", a) : fmt::format("#{:06x}", area.rgb));
    // The outline goes along the upper edge to the right and along the lower one back.
    area_edge(upper, true);
    area_edge(lower, false);
    put("Z\"/>\n");
    lower = upper;
  }
  keep_labels_off_areas(upper);
}

// Continues a path along the edge of an area, whose heights are those of the columns; equal columns
// are one step.
void SvgWriter::area_edge(const std::vector<double>& heights, bool forwards) {
  const std::vector<double>& edges = chart_.column_edges;
  std::optional<double> at;
  for (std::size_t k = 0; k < heights.size(); ++k) {
    const std::size_t c = forwards ? k : heights.size() - 1 - k;
    const double y = std::round(y_of(heights[c]) * 10) / 10;
    if (at && *at == y) continue;
    const double x = x_of(edges[forwards ? c : c + 1]);
    if (!at) {
      put("{}{:.1f} {:.1f}", forwards ? "M" : "L", x, y);
    } else {
      put("H{:.1f}V{:.1f}", x, y);
    }
    at = y;
  }
  put("H{:.1f}", x_of(forwards ? edges.back() : edges.front()));
}

// Labels keep off everything below the uppermost edge of the areas.
void SvgWriter::keep_labels_off_areas(const std::vector<double>& upper) {
  const std::vector<double>& edges = chart_.column_edges;
  constexpr std::size_t kPiece = 6;  // columns
  for (std::size_t c = 0; c < upper.size(); c += kPiece) {
    const std::size_t end = std::min(c + kPiece, upper.size());
    const double highest = *std::max_element(upper.begin() + static_cast<std::ptrdiff_t>(c),
                                             upper.begin() + static_cast<std::ptrdiff_t>(end));
    labels_.keep_off({x_of(edges[c]), y_of(highest), x_of(edges[end]), bottom()});
  }
}

void SvgWriter::stroke(std::uint32_t rgb, double width, Dash dash) {
  put(" fill=\"none\" stroke=\"#{:06x}\" stroke-width=\"{:g}\"", rgb, width);
  if (dash != Dash::kSolid) put(" stroke-dasharray=\"{}\"", svg_layers_detail::dashes(dash));
}

void SvgWriter::polyline(const SvgLine& line) {
  const std::vector<SvgPoint> points =
      thin_line(line.points, line.steps, chart_.x.begin, chart_.x.end,
                static_cast<std::size_t>(chart_.plot_width));
  if (points.empty()) return;
  put("<path clip-path=\"url(#plot)\" stroke-linejoin=\"round\"");
  stroke(line.rgb, 1.6, line.dash);
  put(" d=\"M{:.1f} {:.1f}", x_of(points[0].x), y_of(points[0].y));
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double from_x = x_of(points[i - 1].x);
    const double from_y = y_of(points[i - 1].y);
    labels_.keep_off(from_x, from_y, x_of(points[i].x), line.steps ? from_y : y_of(points[i].y));
    if (line.steps)
      labels_.keep_off(x_of(points[i].x), from_y, x_of(points[i].x), y_of(points[i].y));
    if (!line.steps) {
      put("L{:.1f} {:.1f}", x_of(points[i].x), y_of(points[i].y));
    } else if (points[i].y != points[i - 1].y || i + 1 == points.size()) {
      put("H{:.1f}V{:.1f}", x_of(points[i].x), y_of(points[i].y));
    }
  }
  put("\"/>\n");
}

void SvgWriter::lines() {
  for (const SvgLine& line : chart_.lines) {
    polyline(line);
    if (line.mark == MarkShape::kNone) continue;
    for (const SvgPoint& point : line.points) {
      const double x = x_of(point.x);
      const double y = y_of(point.y);
      mark(x, y, line.mark, line.rgb, false);
      labels_.take({x - kMarkRadius, y - kMarkRadius, x + kMarkRadius, y + kMarkRadius});
    }
  }
}

// Writes a label next to a point, or farther off with a line to it; false where there is no place.
bool SvgWriter::place(double x, double y, std::string_view words, bool off_strokes) {
  const double length = text_width(words, kSmallFont);
  const auto found = labels_.find(x, y, length, kSmallFont * 1.15, kMarkRadius + 2, off_strokes);
  if (!found) return false;
  const SvgBox& box = found->box;
  if (found->away > SvgLabels::kLeader) {
    const double to_x = std::clamp(x, box.left, box.right);
    const double to_y = std::clamp(y, box.top, box.bottom);
    put("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"#555\" stroke-width=\"0.6\"/>\n", x, y,
        to_x, to_y);
    labels_.keep_off(x, y, to_x, to_y);
  }
  // The text is aligned towards the point, since it may be narrower than its box.
  const double baseline = (box.top + box.bottom) / 2 + kSmallFont * 0.35;
  if (found->side == 0) {
    label((box.left + box.right) / 2, baseline, words, "middle", kSmallFont, true);
  } else if (found->side > 0) {
    label(box.left + 1, baseline, words, "start", kSmallFont, true);
  } else {
    label(box.right - 1, baseline, words, "end", kSmallFont, true);
  }
  labels_.take(box);
  return true;
}

void SvgWriter::guides() {
  for (const SvgGuide& guide : chart_.guides) {
    const double y = y_of(guide.y);
    put("<path d=\"M{:.1f} {:.1f}H{:.1f}\"", left_, y, right());
    stroke(guide.rgb, 1.4, guide.dash);
    put("/>\n");
    if (guide.label.empty()) continue;
    const double length = text_width(guide.label, kSmallFont);
    for (const auto& [x, dy] : {std::pair{right() - length - 4, -5.0},
                                {left_ + 4, -5.0},
                                {right() - length - 4, kSmallFont + 2},
                                {left_ + 4, kSmallFont + 2}}) {
      const SvgBox box{x, y + dy - kSmallFont, x + length, y + dy + 2};
      if (!labels_.is_free(box, false)) continue;
      label(x, y + dy, guide.label, "start", kSmallFont, true);
      break;
    }
  }
}

void SvgWriter::marks() {
  for (const SvgMark& point : chart_.marks) {
    const double x = x_of(point.at.x);
    const double y = y_of(point.at.y);
    mark(x, y, point.shape, point.rgb, point.hollow);
    labels_.take({x - kMarkRadius, y - kMarkRadius, x + kMarkRadius, y + kMarkRadius});
  }
}

// Draws labels of marks. A label without a free place is left to the CSV of the picture.
void SvgWriter::mark_labels() {
  std::vector<SvgPoint> at;
  for (const SvgMark& point : chart_.marks)
    at.push_back({x_of(point.at.x), y_of(point.at.y)});
  for (const MarkSpot& spot : mark_spots(chart_.marks, at)) {
    bool placed = false;
    for (const bool off_strokes : {true, false}) {
      for (std::string words : {spot.words, spot.short_words}) {
        if (words.empty() || placed) continue;
        if (spot.others > 0) words += fmt::format(", and {} more", spot.others);
        placed = place(spot.x, spot.y, words, off_strokes);
      }
    }
    unnamed_ = unnamed_ || !placed || spot.others > 0;
  }
}

}  // namespace tidemark
