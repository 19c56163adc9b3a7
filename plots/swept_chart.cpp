#include "plots/swept_chart.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/result/csv.hpp"

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

}  // namespace
}  // namespace swept_chart_detail

SvgChart swept_chart(const SweptAxes& axes, const std::vector<SweptValue>& values) {
  SvgChart chart{.title = axes.title};
  chart.x = {.title = axes.x, .unit = axes.x_unit};
  chart.y = {.title = axes.y, .unit = axes.y_unit};
  double first = 0;
  double last = 0;
  double highest = 0;
  double lowest = 0;
  bool any = false;
  std::size_t unknown = 0;
  for (const SweptValue& value : values) {
    if (!value.y) {
      ++unknown;
      continue;
    }
    first = any ? std::min(first, value.x) : value.x;
    last = any ? std::max(last, value.x) : value.x;
    highest = any ? std::max(highest, *value.y) : *value.y;
    lowest = std::min(lowest, *value.y);
    any = true;
  }
  const double air = last > first ? 0.04 * (last - first) : std::max(1e-9, 0.25 * last);
  chart.x.begin = first - air;
  chart.x.end = last + air;
  const auto capacity = static_cast<double>(axes.capacity.count);
  // A capacity far above all points would press them to the axis.
  if (capacity > 0 && capacity < 3 * highest) {
    highest = std::max(highest, capacity);
    chart.guides.push_back({.y = capacity,
                            .label = fmt::format("capacity {}", format_bytes(axes.capacity)),
                            .rgb = swept_chart_detail::kFailedInk});
  }
  chart.y.begin = lowest < 0 ? 1.1 * lowest : 0;
  chart.y.end = highest > lowest ? highest + 0.08 * (highest - chart.y.begin) : 1;
  bool explained = false;
  const std::vector<std::string> lines = swept_chart_detail::lines_of(values);
  for (std::size_t l = 0; l < lines.size(); ++l) {
    const LineInk ink = line_ink(l);
    SvgLine line{.label = lines[l], .rgb = ink.rgb, .dash = ink.dash, .mark = ink.mark};
    for (const SweptValue& value : values) {
      if (value.line != lines[l] || !value.y) continue;
      if (value.fits) {
        line.points.push_back({value.x, *value.y});
        continue;
      }
      chart.marks.push_back({.at = {value.x, *value.y},
                             .legend = explained ? "" : "does not fit",
                             .shape = MarkShape::kCross,
                             .rgb = ink.rgb});
      explained = true;
    }
    std::stable_sort(line.points.begin(), line.points.end(),
                     [](const SvgPoint& a, const SvgPoint& b) { return a.x < b.x; });
    chart.lines.push_back(std::move(line));
  }
  if (unknown > 0) chart.notes.push_back(fmt::format("{} without the figure left out", unknown));
  return chart;
}

void write_swept_csv(std::ostream& out, const SweptAxes& axes,
                     const std::vector<SweptValue>& values) {
  out << fmt::format("line,{},{},fits\n", csv_field(axes.x), csv_field(axes.y));
  for (const SweptValue& value : values) {
    out << fmt::format("{},{:.12g},{},{}\n", csv_field(value.line), value.x,
                       value.y ? fmt::format("{:.12g}", *value.y) : "", value.fits);
  }
}

}  // namespace tidemark
