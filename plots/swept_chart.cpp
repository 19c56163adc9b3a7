#include "plots/swept_chart.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/core/csv.hpp"
#include "plots/table.hpp"

namespace tidemark {
namespace swept_chart_detail {
namespace {

constexpr std::uint32_t kFailedInk = 0xb3261e;

std::vector<std::string> lines_of(const std::vector<SweptValue>& values) {
  std::vector<std::string> lines;
  for (const SweptValue& value : values) {
    if (std::find(lines.begin(), lines.end(), value.line) == lines.end())
      lines.push_back(value.line);
  }
  return lines;
}

// The range of the values that are known.
struct Extent {
  double first = 0;
  double last = 0;
  double lowest = 0;  // at most 0
  double highest = 0;
  std::size_t unknown = 0;
};

Extent extent_of(const std::vector<SweptValue>& values) {
  Extent extent;
  bool any = false;
  for (const SweptValue& value : values) {
    if (!value.y) {
      ++extent.unknown;
      continue;
    }
    extent.first = any ? std::min(extent.first, value.x) : value.x;
    extent.last = any ? std::max(extent.last, value.x) : value.x;
    extent.highest = any ? std::max(extent.highest, *value.y) : *value.y;
    extent.lowest = std::min(extent.lowest, *value.y);
    any = true;
  }
  return extent;
}

// Sets an axis on which each of the words has room.
void fit_words(SvgChart& chart, const std::vector<std::string>& words) {
  constexpr std::size_t kOneLine = 20;  // characters of a label that is not broken into lines
  constexpr double kCharacter = 8;      // pixels
  std::size_t longest = 0;
  for (const std::string& label : words) {
    longest = std::max(longest, std::min(display_width(label), kOneLine));
    for (const std::string& part : wrap(label, 1))
      longest = std::max(longest, display_width(part));
  }
  const auto count = static_cast<double>(words.size());
  chart.x.words = words;
  chart.x.begin = -0.5;
  chart.x.end = count - 0.5;
  chart.plot_width =
      std::max(chart.plot_width, count * kCharacter * static_cast<double>(longest + 2));
}

// Adds the line of one group, and a cross for each of its points that does not fit.
void add_line(SvgChart& chart, const std::string& label, const LineInk& ink,
              const std::vector<SweptValue>& values) {
  SvgLine line{.label = label, .rgb = ink.rgb, .dash = ink.dash, .mark = ink.mark};
  for (const SweptValue& value : values) {
    if (value.line != label || !value.y) continue;
    const SvgPoint at{value.x, *value.y};
    if (value.fits) {
      line.points.push_back(at);
    } else {
      chart.marks.push_back({.at = at, .shape = MarkShape::kCross, .rgb = ink.rgb});
    }
  }
  std::stable_sort(line.points.begin(), line.points.end(),
                   [](const SvgPoint& a, const SvgPoint& b) { return a.x < b.x; });
  chart.lines.push_back(std::move(line));
}

}  // namespace
}  // namespace swept_chart_detail

SvgChart swept_chart(const SweptAxes& axes, const std::vector<SweptValue>& values) {
  SvgChart chart{.title = axes.title};
  chart.x = {.title = axes.x, .unit = axes.x_unit};
  chart.y = {.title = axes.y, .unit = axes.y_unit};
  swept_chart_detail::Extent extent = swept_chart_detail::extent_of(values);
  const double span = extent.last - extent.first;
  const double air = span > 0 ? 0.04 * span : std::max(1e-9, 0.25 * extent.last);
  // A key that is never below 0 has an axis that is not either, unless a mark would be cut off.
  chart.x.begin = extent.first > 0 ? std::max(0.0, extent.first - air) : extent.first - air;
  chart.x.end = extent.last + air;
  if (!axes.x_words.empty()) swept_chart_detail::fit_words(chart, axes.x_words);
  const auto capacity = static_cast<double>(axes.capacity.count);
  // A capacity far above all points would press them to the axis.
  if (capacity > 0 && capacity < 3 * extent.highest) {
    extent.highest = std::max(extent.highest, capacity);
    chart.guides.push_back({.y = capacity,
                            .label = fmt::format("capacity {}", format_bytes(axes.capacity)),
                            .rgb = swept_chart_detail::kFailedInk});
  }
  chart.y.begin = 1.1 * extent.lowest;
  chart.y.end =
      extent.highest > extent.lowest ? extent.highest + 0.08 * (extent.highest - chart.y.begin) : 1;
  const std::vector<std::string> lines = swept_chart_detail::lines_of(values);
  for (std::size_t l = 0; l < lines.size(); ++l)
    swept_chart_detail::add_line(chart, lines[l], line_ink(l), values);
  if (!chart.marks.empty()) chart.marks.front().legend = "does not fit";
  if (!axes.note.empty()) chart.notes.push_back(axes.note);
  if (extent.unknown > 0)
    chart.notes.push_back(fmt::format("{} without the figure left out", extent.unknown));
  return chart;
}

void write_swept_csv(std::ostream& out, const SweptAxes& axes,
                     const std::vector<SweptValue>& values) {
  out << fmt::format("line,{},{},fits\n", csv_field(axes.x), csv_field(axes.y));
  for (const SweptValue& value : values) {
    const std::string x = axes.x_words.empty()
                              ? fmt::format("{:.12g}", value.x)
                              : csv_field(axes.x_words.at(static_cast<std::size_t>(value.x)));
    out << fmt::format("{},{},{},{}\n", csv_field(value.line), x,
                       value.y ? fmt::format("{:.12g}", *value.y) : "", value.fits);
  }
}

}  // namespace tidemark
