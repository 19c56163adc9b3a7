#include "cli/output/validation_files.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graph/core/csv.hpp"
#include "graph/core/units.hpp"
#include "plots/agreement_chart.hpp"
#include "plots/drawing/svg_file.hpp"
#include "plots/svg.hpp"

namespace tidemark {
namespace validation_files_detail {
namespace {

constexpr std::size_t kWorstRows = 30;  // in the page

std::vector<const ValidatedRow*> worst_first(const Validation& validation) {
  std::vector<const ValidatedRow*> rows;
  for (const ValidatedRow& row : validation.rows)
    rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(), [](const ValidatedRow* a, const ValidatedRow* b) {
    return distance_of(*a) > distance_of(*b);
  });
  return rows;
}

// Returns what the axis of a row's figure is called: figures of one unit share a chart.
std::string axis_of(const ValidatedRow& row) {
  if (row.unit == ValueUnit::kSeconds) return "seconds";
  return row.unit == ValueUnit::kBytes ? "bytes" : row.metric;
}

SvgChart chart_of(const Validation& validation) {
  std::map<std::string, std::size_t> axes;
  bool times = false;
  for (const ValidatedRow& row : validation.rows) {
    times |= row.metric == "time" || row.metric == "step_time";
    ++axes[axis_of(row)];
  }
  std::string shown = times ? "seconds" : "";
  for (const auto& [axis, count] : axes) {
    if (shown.empty() || (!times && count > axes[shown])) shown = axis;
  }
  std::vector<AgreementGroup> groups;
  std::map<std::string, std::size_t> places;
  for (const ValidatedRow& row : validation.rows) {
    if (axis_of(row) != shown || !(row.predicted > 0)) continue;
    const auto [place, added] = places.try_emplace(row.group, groups.size());
    if (added) groups.push_back({.label = row.group, .points = {}});
    groups[place->second].points.push_back({row.measured, row.predicted});
  }
  return agreement_chart(groups, shown);
}

void write_rows(std::ostream& out, const std::vector<const ValidatedRow*>& rows) {
  out << "group,metric,row,file,line,predicted,measured,error\n";
  for (const ValidatedRow* row : rows) {
    out << fmt::format("{},{},{},{},{},{:.6g},{:.6g},{:.4f}\n", csv_field(row->group),
                       csv_field(row->metric), csv_field(row->text), csv_field(row->file),
                       row->line, row->predicted, row->measured, row->error());
  }
}

void write_page(std::ostream& out, const Validation& validation, const SvgChart& chart,
                const std::vector<const ValidatedRow*>& rows) {
  std::ostringstream picture;
  write_svg(picture, chart);
  std::string svg = picture.str();
  svg = svg.substr(std::min(svg.find("<svg"), svg.size()));
  out << "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<title>Predicted against measured</title>\n<style>body{font:15px sans-serif;margin:2em;"
         "max-width:70em}table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left;"
         "border-bottom:1px solid "
         "#ddd}td.n{text-align:right;white-space:nowrap}</style></head><body>\n"
         "<h1>Predicted against measured</h1>\n<p>Errors are predicted / measured - 1.</p>\n"
      << svg << "\n<h2>Groups</h2>\n<table><tr><th>group</th><th>metric</th><th>rows</th>"
      << "<th>MAPE</th><th>median</th><th>bias</th></tr>\n";
  const auto add = [&](const std::vector<ValidatedGroup>& groups, std::string_view over) {
    for (const ValidatedGroup& g : groups) {
      out << fmt::format(
          "<tr><td>{}{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1f} %</td>"
          "<td class=\"n\">{:.1f} %</td><td class=\"n\">{:+.1f} %</td></tr>\n",
          over, xml_text(g.group), xml_text(g.metric), g.errors.n, g.errors.mape * 100,
          g.errors.median * 100, g.errors.bias * 100);
    }
  };
  add(groups_of(validation.rows), "");
  add(overall_groups_of(validation.rows), "all ");
  out << "</table>\n<h2>Farthest off</h2>\n<table><tr><th>row</th><th>group</th><th>metric</th>"
         "<th>predicted</th><th>measured</th><th>error</th></tr>\n";
  for (std::size_t i = 0; i < std::min(kWorstRows, rows.size()); ++i) {
    const ValidatedRow& row = *rows[i];
    out << fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{:+.0f} %</td></tr>\n",
        xml_text(row.text), xml_text(row.group), xml_text(row.metric),
        value_text(row, row.predicted), value_text(row, row.measured), row.error() * 100);
  }
  out << "</table>\n<p>rows.csv has all of them.</p>\n";
  if (!validation.other.empty()) out << "<h2>Rows that are not used</h2>\n<table>\n";
  for (const auto& [reason, count] : validation.other) {
    out << fmt::format("<tr><td class=\"n\">{}</td><td>{}</td></tr>\n", count, xml_text(reason));
  }
  if (!validation.other.empty()) out << "</table>\n";
  out << "</body></html>\n";
}

}  // namespace
}  // namespace validation_files_detail

std::string value_text(const ValidatedRow& row, double value) {
  if (row.unit == ValueUnit::kBytes) return format_bytes(Bytes(std::llround(value)));
  if (row.unit == ValueUnit::kSeconds) return fmt::format("{:.4g} ms", value * 1e3);
  return fmt::format("{:.4g}", value);
}

double distance_of(const ValidatedRow& row) {
  if (!(row.predicted > 0)) return 1;
  return std::abs(std::log(row.predicted / row.measured));
}

void add_validation_files(OutputFolder& folder, const Validation& validation) {
  const std::vector<const ValidatedRow*> rows = validation_files_detail::worst_first(validation);
  validation_files_detail::write_rows(folder.add("rows.csv"), rows);
  const SvgChart chart = validation_files_detail::chart_of(validation);
  write_svg(folder.add("validate.svg"), chart);
  validation_files_detail::write_page(folder.add("validate.html"), validation, chart, rows);
}

}  // namespace tidemark
