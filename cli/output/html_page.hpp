// The HTML report of a command: the facts of each point, and the runs behind the charts.
#pragma once

#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plots/report/html_report.hpp"
#include "scenarios/results/compared_time.hpp"
#include "scenarios/results/peak_terms.hpp"
#include "scenarios/studies/compare.hpp"

namespace tidemark {

// Most points with charts of their own in one report; further ones are in its tables and
// comparisons.
inline constexpr std::size_t kChartedPoints = 12;

// Up to so many points, those without charts have all their figures in the page, too; beyond, they
// have only those that the page compares by, so that it stays small.
inline constexpr std::size_t kWholePoints = 200;

// The run behind the charts of one point, and facts about it.
struct PointCharts {
  std::string columns;  // run_columns()
  std::string facts;    // keys of the point's entry, as a JSON object
};
[[nodiscard]] PointCharts charts_of(const DetailedPoint& point);

class HtmlPage {
 public:
  // `reproduce` says how to make the page again, `point_command` runs one of several points once
  // its settings are appended to it; both may be empty. The points must live as long as the page.
  HtmlPage(std::span<const PointResult> points, const std::string& reproduce,
           const std::string& point_command = {});
  // A page of policies against budgets. `charts` are by evaluation; of the first points that share
  // one, the best before others, kChartedPoints at most.
  HtmlPage(const Comparison& comparison, std::span<const PointCharts> charts,
           const std::string& reproduce);

  // Adds the charts of point `index`.
  void add_charts(std::size_t index, PointCharts charts);
  void write(std::ostream& out);
  ~HtmlPage();

 private:
  // `whole`: keeps all figures of each point, not only those that the page compares by.
  HtmlPage(std::span<const PointResult> points, const std::string& reproduce,
           const std::string& point_command, bool whole);
  // Returns all figures of a point.
  [[nodiscard]] nlohmann::ordered_json entry_of(std::size_t index) const;

  HtmlReport report_;
  std::unique_ptr<nlohmann::ordered_json> summary_;  // summary of the report
  std::span<const PointResult> points_;
  std::vector<std::string> labels_;  // by point
  WorkUnit unit_;                    // what times are compared by
  bool whole_;
};

}  // namespace tidemark
