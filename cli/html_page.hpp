// The HTML report of a command: what its page says of each point, and the runs behind the charts.
#pragma once

#include <ostream>
#include <span>

#include "cli/reports.hpp"
#include "plots/report/html_report.hpp"

namespace tidemark {

// Points with charts of their own in one report; further ones are in its tables and comparisons.
inline constexpr std::size_t kChartedPoints = 12;

class HtmlPage {
 public:
  explicit HtmlPage(std::span<const PointResult> points);

  // The charts of point `index`.
  void add_charts(std::size_t index, const DetailedPoint& point);
  void write(std::ostream& out) const { write_html_report(out, report_); }

 private:
  HtmlReport report_;
};

}  // namespace tidemark
