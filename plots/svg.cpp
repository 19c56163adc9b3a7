#include "plots/svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "plots/svg_labels.hpp"
#include "plots/svg_marks.hpp"
#include "plots/table.hpp"

namespace tidemark {
namespace {

constexpr double kFont = 12;  // pixels
constexpr double kSmallFont = 11;
constexpr double kTitleFont = 15;
// Of a character over the font's size, for the widest of the fonts named below (DejaVu Sans).
constexpr double kAdvance = 0.62;
constexpr double kLine = 1.35;  // distance of lines over the font's size
constexpr double kLeft = 64;    // of the plot, for the axis' numbers
constexpr double kBelow = 46;
constexpr double kGap = 18;     // between plot and legend
constexpr double kSwatch = 22;  // width of a sample of ink
// Where marks share a label or have none.
constexpr std::string_view kUnnamed = "all names: in the CSV of this chart";
constexpr double kMargin = 10;
constexpr std::string_view kFonts =
    "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

double text_width(std::string_view text, double font) {
  return static_cast<double>(display_width(text)) * font * kAdvance;
}

std::string_view dashes(Dash dash) {
  constexpr std::string_view kDashes[] = {"", "8 4", "4 3", "1.5 3", "8 3 1.5 3"};
  return kDashes[static_cast<std::size_t>(dash)];
}

class SvgWriter {
 public:
  explicit SvgWriter(const SvgChart& chart);
  [[nodiscard]] std::string text();

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
  }
  [[nodiscard]] double x_of(double value) const {
    return left_ + (value - chart_.x.begin) / (chart_.x.end - chart_.x.begin) * chart_.plot_width;
  }
  [[nodiscard]] double y_of(double value) const {
    return top_ +
           chart_.plot_height * (1 - (value - chart_.y.begin) / (chart_.y.end - chart_.y.begin));
  }
  [[nodiscard]] double right() const { return left_ + chart_.plot_width; }
  [[nodiscard]] double bottom() const { return top_ + chart_.plot_height; }

  void measure();
  void label(double x, double y, std::string_view words, std::string_view anchor, double font,
             bool halo = false, bool strong = false);
  void titles();
  void bands();
  void axes();
  void areas();
  void lines();
  void guides();
  void marks();
  void mark_labels();
  void legend();
  void polyline(const SvgLine& line);
  void stroke(std::uint32_t rgb, double width, Dash dash);
  void mark(double x, double y, MarkShape shape, std::uint32_t rgb, bool hollow) {
    body_ += mark_ink(x, y, shape, rgb, hollow);
  }
  void pattern(std::size_t index, const SvgArea& area);
  [[nodiscard]] bool place(double x, double y, std::string_view words, bool off_strokes);

  const SvgChart& chart_;
  std::string body_;
  std::string definitions_;
  SvgLabels labels_{SvgBox{}};
  std::vector<std::string> title_lines_, subtitle_lines_;
  AxisTicks x_ticks_, y_ticks_;
  double left_ = kLeft, top_ = 0, width_ = 0, height_ = 0;
  double legend_height_ = 0;
  bool unnamed_ = false;  // some mark has no label of its own
};

SvgWriter::SvgWriter(const SvgChart& chart) : chart_(chart) {
  const auto is_range = [](const SvgAxis& axis) {
    return std::isfinite(axis.begin) && std::isfinite(axis.end) && axis.begin < axis.end;
  };
  if (!is_range(chart.x) || !is_range(chart.y)) throw InternalError("an axis of a chart is empty");
  for (const SvgArea& area : chart.areas) {
    if (area.heights.size() + 1 != chart.column_edges.size()) {
      throw InternalError(fmt::format("area '{}' of a chart has {} columns instead of {}",
                                      area.label, area.heights.size(),
                                      chart.column_edges.size() - 1));
    }
  }
  measure();
  labels_ = SvgLabels({left_, top_, right(), bottom()});
}

// Margins, from what stands in them.
void SvgWriter::measure() {
  const auto until = [](const SvgAxis& axis) {
    return axis.ticks_until > axis.begin ? axis.ticks_until : axis.end;
  };
  x_ticks_ = round_ticks(chart_.x.begin, until(chart_.x), chart_.x.unit,
                         static_cast<std::size_t>(std::max(2.0, chart_.plot_width / 70)));
  y_ticks_ = round_ticks(chart_.y.begin, until(chart_.y), chart_.y.unit,
                         static_cast<std::size_t>(std::max(2.0, chart_.plot_height / 36)));
  double legend = 0;
  std::size_t entries = 0;
  const auto entry = [&](const std::string& words) {
    if (words.empty()) return;
    legend = std::max(legend, kSwatch + 6 + text_width(words, kFont));
    ++entries;
  };
  for (const SvgArea& area : chart_.areas)
    entry(area.label);
  for (const SvgLine& line : chart_.lines)
    entry(line.label);
  for (const SvgMark& mark : chart_.marks)
    entry(mark.legend);
  const auto note = [&](std::string_view words) {
    legend = std::max(legend, text_width(words, kSmallFont));
    ++entries;
  };
  for (const std::string& words : chart_.notes)
    note(words);
  const auto labelled = std::count_if(chart_.marks.begin(), chart_.marks.end(),
                                      [](const SvgMark& mark) { return !mark.label.empty(); });
  if (labelled > 1) note(kUnnamed);
  legend_height_ = static_cast<double>(entries) * kFont * kLine;
  width_ = left_ + chart_.plot_width + (legend > 0 ? kGap + legend : 0) + kMargin;
  const auto characters = [&](double font) {
    return static_cast<std::size_t>((width_ - 2 * kMargin) / (font * kAdvance));
  };
  if (!chart_.title.empty()) title_lines_ = wrap(chart_.title, characters(kTitleFont));
  if (!chart_.subtitle.empty()) subtitle_lines_ = wrap(chart_.subtitle, characters(kSmallFont));
  top_ = kMargin + static_cast<double>(title_lines_.size()) * kTitleFont * kLine +
         static_cast<double>(subtitle_lines_.size()) * kSmallFont * kLine +
         (chart_.bands.empty() ? 0 : kSmallFont * kLine) + kFont * kLine + 10;
  height_ = top_ + std::max(chart_.plot_height, legend_height_) + kBelow;
}

void SvgWriter::label(double x, double y, std::string_view words, std::string_view anchor,
                      double font, bool halo, bool strong) {
  put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\"", x, y, font);
  if (anchor != "start") put(" text-anchor=\"{}\"", anchor);
  if (strong) put(" font-weight=\"bold\"");
  if (halo)
    put(" stroke=\"#fff\" stroke-width=\"3\" stroke-linejoin=\"round\" paint-order=\"stroke\"");
  put(">{}</text>\n", xml_text(words));
  const double length = text_width(words, font);
  const double begin = anchor == "end" ? x - length : anchor == "middle" ? x - length / 2 : x;
  labels_.take({begin, y - font * 0.85, begin + length, y + font * 0.3});
}

void SvgWriter::titles() {
  double y = kMargin;
  for (const std::string& line : title_lines_)
    label(kMargin, (y += kTitleFont * kLine) - 4, line, "start", kTitleFont, false, true);
  for (const std::string& line : subtitle_lines_)
    label(kMargin, (y += kSmallFont * kLine) - 3, line, "start", kSmallFont);
}

void SvgWriter::bands() {
  bool shaded = false;
  for (const SvgBand& band : chart_.bands) {
    const double begin = std::clamp(x_of(band.begin), left_, right());
    const double end = std::clamp(x_of(band.end), left_, right());
    if (shaded) {
      put("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#eee\"/>\n",
          begin, top_ - kSmallFont * kLine, end - begin, chart_.plot_height + kSmallFont * kLine);
    }
    shaded = !shaded;
    bool named = false;
    for (const std::string& words : {band.label, band.short_label}) {
      if (words.empty() || text_width(words, kSmallFont) + 6 > end - begin) continue;
      label((begin + end) / 2, top_ - 5, words, "middle", kSmallFont);
      named = true;
      break;
    }
    // The last one may use the margin.
    if (!named && &band == &chart_.bands.back() &&
        begin + 3 + text_width(band.label, kSmallFont) < width_) {
      label(begin + 3, top_ - 5, band.label, "start", kSmallFont);
    }
  }
}

void SvgWriter::axes() {
  const auto titled = [](const std::string& title, const std::string& unit) {
    return unit.empty() ? title : title.empty() ? unit : fmt::format("{} ({})", title, unit);
  };
  for (std::size_t i = 0; i < y_ticks_.at.size(); ++i) {
    const double y = y_of(y_ticks_.at[i]);
    put("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#ccc\" stroke-width=\"0.6\"/>\n", left_, y,
        right());
    label(left_ - 7, y + 4, y_ticks_.labels[i], "end", kFont);
  }
  for (std::size_t i = 0; i < x_ticks_.at.size(); ++i) {
    const double x = x_of(x_ticks_.at[i]);
    put("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#000\"/>\n", x, bottom());
    label(x, bottom() + 18, x_ticks_.labels[i], "middle", kFont);
  }
  label((left_ + right()) / 2, bottom() + 37, titled(chart_.x.title, x_ticks_.unit), "middle",
        kFont);
  const double above = top_ - (chart_.bands.empty() ? 0 : kSmallFont * kLine);
  label(kMargin, above - 12, titled(chart_.y.title, y_ticks_.unit), "start", kFont);
}

// The ink of an area: its colour under hatching.
void SvgWriter::pattern(std::size_t index, const SvgArea& area) {
  constexpr std::string_view kStrokes[] = {"",
                                           "M-2 2L2 -2M0 8L8 0M6 10L10 6",
                                           "M-2 6L2 10M0 0L8 8M6 -2L10 2",
                                           "M0 8L8 0M0 0L8 8",
                                           "M0 4H8",
                                           "M4 0V8",
                                           "M4 3.9V4.1"};
  const auto hatch = static_cast<std::size_t>(area.hatch);
  // Dark on light inks and light on dark ones (ITU-R BT.601 luma).
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
  // Along the upper edge to the right and along the lower one back; equal columns are one step.
  const auto walk = [&](const std::vector<double>& heights, bool forwards) {
    std::optional<double> at;
    for (std::size_t k = 0; k < columns; ++k) {
      const std::size_t c = forwards ? k : columns - 1 - k;
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
  };
  for (std::size_t a = 0; a < chart_.areas.size(); ++a) {
    const SvgArea& area = chart_.areas[a];
    for (std::size_t c = 0; c < columns; ++c)
      upper[c] = lower[c] + area.heights[c];
    const bool hatched = area.hatch != Hatch::kNone;
    if (hatched) pattern(a, area);
    put("<path fill=\"{}\" stroke=\"#fff\" stroke-width=\"0.4\" d=\"",
        hatched ? fmt::format("url(#a{})", a) : fmt::format("#{:06x}", area.rgb));
    walk(upper, true);
    walk(lower, false);
    put("Z\"/>\n");
    lower = upper;
  }
  constexpr std::size_t kPiece = 6;  // columns
  for (std::size_t c = 0; c < columns; c += kPiece) {
    const std::size_t end = std::min(c + kPiece, columns);
    const double highest = *std::max_element(upper.begin() + static_cast<std::ptrdiff_t>(c),
                                             upper.begin() + static_cast<std::ptrdiff_t>(end));
    labels_.keep_off({x_of(edges[c]), y_of(highest), x_of(edges[end]), bottom()});
  }
}

void SvgWriter::stroke(std::uint32_t rgb, double width, Dash dash) {
  put(" fill=\"none\" stroke=\"#{:06x}\" stroke-width=\"{:g}\"", rgb, width);
  if (dash != Dash::kSolid) put(" stroke-dasharray=\"{}\"", dashes(dash));
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

// Beside a point, or further away with a line to it; false where there is no place.
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
  // Towards the point, since the text may be narrower than its box.
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

// A label without a free place is left to the table beside the picture.
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

void SvgWriter::legend() {
  const double x = right() + kGap;
  double y = top_ + kFont * 0.5;
  const auto entry = [&](const std::string& words) {
    label(x + kSwatch + 6, y + kFont * 0.35, words, "start", kFont);
    y += kFont * kLine;
  };
  for (std::size_t a = chart_.areas.size(); a-- > 0;) {  // as they lie on each other
    const SvgArea& area = chart_.areas[a];
    if (area.label.empty()) continue;
    put("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:g}\" height=\"11\" stroke=\"#444\" "
        "stroke-width=\"0.5\" fill=\"{}\"/>\n",
        x, y - 5.5, kSwatch,
        area.hatch != Hatch::kNone ? fmt::format("url(#a{})", a)
                                   : fmt::format("#{:06x}", area.rgb));
    entry(area.label);
  }
  for (const SvgLine& line : chart_.lines) {
    if (line.label.empty()) continue;
    put("<path d=\"M{:.1f} {:.1f}h{:g}\"", x, y, kSwatch);
    stroke(line.rgb, 1.6, line.dash);
    put("/>\n");
    mark(x + kSwatch / 2, y, line.mark, line.rgb, false);
    entry(line.label);
  }
  for (const SvgMark& point : chart_.marks) {
    if (point.legend.empty()) continue;
    mark(x + kSwatch / 2, y, point.shape, point.rgb, point.hollow);
    entry(point.legend);
  }
  const auto note = [&](std::string_view words) {
    label(x, y + kFont * 0.35, words, "start", kSmallFont);
    y += kFont * kLine;
  };
  for (const std::string& words : chart_.notes)
    note(words);
  if (unnamed_) note(kUnnamed);
}

std::string SvgWriter::text() {
  titles();
  bands();
  axes();
  areas();
  put("<path d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\" fill=\"none\" stroke=\"#000\"/>\n", left_, top_,
      bottom(), right());
  lines();
  marks();
  for (const SvgGuide& guide : chart_.guides)
    labels_.keep_off(left_, y_of(guide.y), right(), y_of(guide.y));
  mark_labels();
  guides();
  legend();
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"{2}\" role=\"img\">\n<title>{3}</title>\n"
      "<defs>\n<clipPath id=\"plot\"><rect x=\"{4:.1f}\" y=\"{5:.1f}\" width=\"{6:g}\" "
      "height=\"{7:g}\"/></clipPath>\n{8}</defs>\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"#fff\"/>\n{9}</svg>\n",
      width_, height_, kFonts, xml_text(chart_.title), left_, top_ - 1, chart_.plot_width + 1,
      chart_.plot_height + 2, definitions_, body_);
}

}  // namespace

void write_svg(std::ostream& out, const SvgChart& chart) {
  out << SvgWriter(chart).text();
}

}  // namespace tidemark
