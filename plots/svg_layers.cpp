// Draws the inside of the plot of an SVG chart: areas, lines, guides and marks with their labels.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "plots/svg_writer.hpp"

namespace tidemark {

DrawnInk SvgWriter::area_ink(const SvgArea& area) {
  if (area.hatch == Hatch::kNone) return {.fill = area.rgb};
  drawing_.hatchings.push_back({area.rgb, area.hatch});
  return {.hatching = drawing_.hatchings.size() - 1};
}

void SvgWriter::areas() {
  for (const SvgArea& area : chart_.areas)
    area_inks_.push_back(area_ink(area));
  const std::vector<double>& edges = chart_.column_edges;
  if (edges.size() < 2) return;
  const std::size_t columns = edges.size() - 1;
  std::vector<double> lower(columns, 0);
  std::vector<double> upper(columns, 0);
  for (std::size_t a = 0; a < chart_.areas.size(); ++a) {
    const SvgArea& area = chart_.areas[a];
    if (area.heights.empty()) continue;
    for (std::size_t c = 0; c < columns; ++c)
      upper[c] = lower[c] + area.heights[c];
    DrawnInk ink = area_inks_[a];
    ink.stroke = 0xffffff;
    ink.width = 0.4;
    // The outline goes along the upper edge to the right and along the lower one back.
    std::vector<PathStep> outline;
    area_edge(outline, upper, true);
    area_edge(outline, lower, false);
    outline.push_back({PathStep::Kind::kClose});
    path(std::move(outline), ink);
    lower = upper;
  }
  keep_labels_off_areas(upper);
}

// Draws the rectangles of an area as one path, and those that are large enough to have an outline
// as another.
void SvgWriter::rectangles() {
  constexpr double kOutlined = 3;  // pixels
  constexpr double kLeast = 0.3;   // less could not be seen
  for (std::size_t a = 0; a < chart_.areas.size(); ++a) {
    std::array<std::vector<PathStep>, 2> outlines;  // small ones, large ones
    for (const SvgRectangle& shown : chart_.rectangles) {
      if (shown.area != a) continue;
      const double x = x_of(shown.begin);
      const double y = y_of(shown.high);
      const double width = std::max(x_of(shown.end) - x, kLeast);
      const double height = std::max(y_of(shown.low) - y, kLeast);
      std::vector<PathStep>& steps = outlines[width > kOutlined && height > kOutlined ? 1 : 0];
      const std::vector<PathStep> corners = outline_of(x, y, width, height);
      steps.insert(steps.end(), corners.begin(), corners.end());
    }
    for (const bool large : {false, true}) {
      std::vector<PathStep>& steps = outlines[large ? 1 : 0];
      if (steps.empty()) continue;
      DrawnInk ink = area_inks_[a];
      if (large) ink.stroke = 0xffffff;
      ink.width = 0.4;
      path(std::move(steps), ink);
    }
  }
}

// Continues a path along the edge of an area, whose heights are those of the columns; equal columns
// are one step.
void SvgWriter::area_edge(std::vector<PathStep>& steps, const std::vector<double>& heights,
                          bool forwards) {
  const std::vector<double>& edges = chart_.column_edges;
  std::optional<double> at;
  for (std::size_t k = 0; k < heights.size(); ++k) {
    const std::size_t c = forwards ? k : heights.size() - 1 - k;
    const double y = std::round(y_of(heights[c]) * 10) / 10;
    if (at && *at == y) continue;
    const double x = x_of(edges[forwards ? c : c + 1]);
    if (!at) {
      steps.push_back({steps.empty() ? PathStep::Kind::kMove : PathStep::Kind::kLine, x, y});
    } else {
      steps.push_back({PathStep::Kind::kLine, x, *at});
      steps.push_back({PathStep::Kind::kLine, x, y});
    }
    at = y;
  }
  steps.push_back({PathStep::Kind::kLine, x_of(forwards ? edges.back() : edges.front()),
                   at.value_or(bottom())});
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

void SvgWriter::polyline(const SvgLine& line) {
  const std::vector<SvgPoint> points =
      thin_line(line.points, line.steps, chart_.x.begin, chart_.x.end,
                static_cast<std::size_t>(chart_.plot_width));
  if (points.empty()) return;
  std::vector<PathStep> steps{{PathStep::Kind::kMove, x_of(points[0].x), y_of(points[0].y)}};
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double from_x = x_of(points[i - 1].x);
    const double from_y = y_of(points[i - 1].y);
    const double x = x_of(points[i].x);
    const double y = y_of(points[i].y);
    labels_.keep_off(from_x, from_y, x, line.steps ? from_y : y);
    if (line.steps) {
      labels_.keep_off(x, from_y, x, y);
      if (points[i].y == points[i - 1].y && i + 1 != points.size()) continue;
      steps.push_back({PathStep::Kind::kLine, x, from_y});
    }
    steps.push_back({PathStep::Kind::kLine, x, y});
  }
  path(std::move(steps),
       {.stroke = line.rgb, .width = line.width, .dash = line.dash, .round_joins = true}, true);
}

void SvgWriter::mark(double x, double y, MarkShape shape, std::uint32_t rgb, bool hollow) {
  if (shape == MarkShape::kNone) return;
  if (shape == MarkShape::kCircle) {
    drawing_.items.emplace_back(DrawnCircle{x, y, kMarkRadius, mark_ink(shape, rgb, hollow)});
  } else {
    path(mark_outline(x, y, shape), mark_ink(shape, rgb, hollow));
  }
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
    stroke(x, y, to_x, to_y, {.stroke = 0x555555, .width = 0.6});
    labels_.keep_off(x, y, to_x, to_y);
  }
  // The text is aligned towards the point, since it may be narrower than its box.
  const double baseline = (box.top + box.bottom) / 2 + kSmallFont * 0.35;
  if (found->side == 0) {
    label((box.left + box.right) / 2, baseline, words,
          {.anchor = TextAnchor::kMiddle, .font = kSmallFont, .halo = true});
  } else if (found->side > 0) {
    label(box.left + 1, baseline, words, {.font = kSmallFont, .halo = true});
  } else {
    label(box.right - 1, baseline, words,
          {.anchor = TextAnchor::kEnd, .font = kSmallFont, .halo = true});
  }
  labels_.take(box);
  return true;
}

void SvgWriter::guides() {
  for (const SvgGuide& guide : chart_.guides) {
    const double y = y_of(guide.y);
    stroke(left_, y, right(), y, {.stroke = guide.rgb, .width = 1.4, .dash = guide.dash});
    if (guide.label.empty()) continue;
    const double length = text_width(guide.label, kSmallFont);
    for (const auto& [x, dy] : {std::pair{right() - length - 4, -5.0},
                                {left_ + 4, -5.0},
                                {right() - length - 4, kSmallFont + 2},
                                {left_ + 4, kSmallFont + 2}}) {
      const SvgBox box{x, y + dy - kSmallFont, x + length, y + dy + 2};
      if (!labels_.is_free(box, false)) continue;
      label(x, y + dy, guide.label, {.font = kSmallFont, .halo = true});
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
