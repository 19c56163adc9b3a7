#include "cli/output/reports.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/output/figures.hpp"
#include "cli/output/html_page.hpp"
#include "cli/output/output_folder.hpp"
#include "cli/text/console.hpp"
#include "plots/chrome_trace.hpp"
#include "plots/perfetto_trace.hpp"
#include "plots/timeline_csv.hpp"
#include "plots/torch_snapshot.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/results/results_csv.hpp"
#include "sim/step/run_compiled.hpp"

namespace tidemark {
namespace reports_detail {
namespace {

void add_results(OutputFolder& output, const ReportFiles& files,
                 std::span<const PointResult> points) {
  if (files.json) output.add("results.json") << document_text(points, {});
  if (files.csv) write_results_csv(output.add("results.csv"), points);
}

void add_timeline(OutputFolder& output, const std::string& name, const DetailedPoint& point) {
  write_timeline_csv(output.add(name), point.detail.model->training, point.detail.compiled.order,
                     point.detail.compiled.program, point.detail.timeline);
}

void add_torch_snapshot(OutputFolder& output, const std::string& name, const DetailedPoint& point) {
  const Compiled& compiled = point.detail.compiled;
  Scratch scratch;
  const auto recorder = run_recorded(point.scenario, compiled, scratch);
  write_torch_snapshot(output.add(name), point.detail.model->training, compiled.order,
                       compiled.program, memory_timeline(compiled.program, scratch), *recorder);
}

// Adds a run as events, in both formats of traces.
void add_traces(OutputFolder& output, const ReportFiles& files, const std::string& suffix,
                const DetailedPoint& point) {
  const TrainingGraph& graph = point.detail.model->training;
  const Compiled& compiled = point.detail.compiled;
  const TraceModel model = trace_model(graph, compiled.order, compiled.program, compiled.costs,
                                       point.detail.scratch, point.detail.timeline);
  const TraceTitle title{.name = point.result.name,
                         .device = point.scenario.device.name,
                         .capacity = point.result.capacity,
                         .ranks = point.scenario.count};
  if (files.chrome_traces) {
    write_chrome_trace(output.add("trace" + suffix + ".json"), graph, compiled.program, model,
                       title);
  }
  if (files.perfetto_traces) {
    write_perfetto_trace(output.add("trace" + suffix + ".perfetto-trace"), graph, compiled.program,
                         model, title);
  }
}

// Adds the files that belong to one point. `suffix` is "-2" for the second of several points.
void add_detail(OutputFolder& output, const ReportFiles& files, const std::string& suffix,
                const DetailedPoint& point) {
  if (files.torch_snapshots)
    add_torch_snapshot(output, "torch_snapshot" + suffix + ".pickle", point);
  if (files.svg) add_timeline_svg(output, "timeline" + suffix, point);
  if (files.chrome_traces || files.perfetto_traces) add_traces(output, files, suffix, point);
}

}  // namespace
}  // namespace reports_detail

ReportFiles report_files(const Value& document, const std::string& output_option,
                         const Environment& environment) {
  ReportFiles files;
  files.html = has_html_report();
  const Value* given = document.find("report");
  if (given != nullptr && !given->is_null()) {
    // The report is the same for all points, but only a point is a whole scenario.
    Value point = document;
    const std::vector<std::vector<Override>> points = sweep_points(document);
    for (const Override& change : points.front())
      apply_override(point, change);
    const ReportOptions report = decode_scenario(point, environment).report;
    const auto wants = [&](std::string_view format) {
      return std::find(report.formats.begin(), report.formats.end(), format) !=
             report.formats.end();
    };
    files.folder = report.directory;
    files.json = wants("json");
    files.csv = wants("csv");
    files.torch_snapshots = wants("torch_snapshot");
    files.svg = wants("svg");
    files.chrome_traces = wants("chrome_trace");
    files.perfetto_traces = wants("perfetto");
    const bool formats = given->find("formats") != nullptr;
    files.html = wants("html") || (!formats && has_html_report());
    files.timelines = files.csv && given->find("formats") != nullptr;
  }
  if (!output_option.empty()) files.folder = output_option;
  return files;
}

void write_report(const ReportFiles& files, const DetailedPoint& point) {
  if (files.folder.empty()) return;
  OutputFolder output(files.folder);
  reports_detail::add_results(output, files, std::span(&point.result, 1));
  if (files.csv) reports_detail::add_timeline(output, "timeline.csv", point);
  reports_detail::add_detail(output, files, "", point);
  if (files.html) {
    HtmlPage page(std::span(&point.result, 1));
    page.add_charts(0, charts_of(point));
    page.write(output.add("report.html"));
  }
  output.commit();
}

struct PointsReport::Collected {
  std::mutex mutex;
  std::unique_ptr<OutputFolder> output;        // made as soon as there is something to write
  std::map<std::size_t, NamedFigure> figures;  // by point
  std::map<std::size_t, PointCharts> charts;   // for the first kChartedPoints that were built
};

PointsReport::PointsReport(ReportFiles files)
    : files_(std::move(files)), collected_(std::make_unique<Collected>()) {}
PointsReport::~PointsReport() = default;
PointsReport::PointsReport(PointsReport&&) noexcept = default;
PointsReport& PointsReport::operator=(PointsReport&&) noexcept = default;

bool PointsReport::wants_detail() const {
  return !files_.folder.empty() && (files_.any_detail() || files_.html);
}

void PointsReport::add(std::size_t index, const SimulatedPoint& point) {
  if (!wants_detail() || point.detail == nullptr) return;
  Collected& all = *collected_;
  const std::lock_guard lock(all.mutex);
  if (files_.any_detail()) {
    if (all.output == nullptr) all.output = std::make_unique<OutputFolder>(files_.folder);
    const std::string suffix = fmt::format("-{}", index + 1);
    if (files_.timelines)
      reports_detail::add_timeline(*all.output, "timeline" + suffix + ".csv", *point.detail);
    reports_detail::add_detail(*all.output, files_, suffix, *point.detail);
  }
  if (files_.svg) {
    all.figures[index] = {point_label(point.result, index + 1), figure_of(*point.detail)};
  }
  const bool first = all.charts.size() < kChartedPoints || index < all.charts.rbegin()->first;
  if (!files_.html || !first) return;
  all.charts[index] = charts_of(*point.detail);
  if (all.charts.size() > kChartedPoints) all.charts.erase(std::prev(all.charts.end()));
}

std::vector<std::size_t> PointsReport::without_charts(std::span<const PointResult> points) const {
  std::vector<std::size_t> missing;
  std::size_t built = 0;
  if (files_.folder.empty() || !files_.html) return missing;
  for (std::size_t i = 0; i < points.size() && built < kChartedPoints; ++i) {
    if (points[i].status == PointStatus::kError) continue;
    ++built;
    if (!collected_->charts.contains(i)) missing.push_back(i);
  }
  return missing;
}

void PointsReport::write(std::span<const PointResult> points) {
  if (files_.folder.empty()) return;
  Collected& all = *collected_;
  if (all.output == nullptr) all.output = std::make_unique<OutputFolder>(files_.folder);
  OutputFolder& output = *all.output;
  reports_detail::add_results(output, files_, points);
  if (files_.svg) {
    std::vector<NamedFigure> overlaid;
    for (auto& [index, figure] : all.figures)
      overlaid.push_back(std::move(figure));
    add_overlaid_svg(output, overlaid);
    add_pareto_svg(output, points, common_setting(overlaid));
  }
  if (files_.html) {
    HtmlPage page(points);
    for (auto& [index, charts] : all.charts)
      page.add_charts(index, std::move(charts));
    page.write(output.add("report.html"));
  }
  output.commit();
}

std::string document_text(std::span<const PointResult> points,
                          const std::vector<std::string>& published) {
  nlohmann::ordered_json document = result_document(points);
  if (!published.empty()) document["published"] = published;
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

void check_writable(const std::string& folder) {
  if (folder.empty()) return;
  const OutputFolder probe(folder);
}

int exit_code(std::span<const PointResult> points) {
  int code = kExitFits;
  for (const PointResult& point : points) {
    if (point.status == PointStatus::kError) return kExitBadInput;
    if (point.status != PointStatus::kFits) code = kExitDoesNotFit;
  }
  return code;
}

}  // namespace tidemark
