#include "cli/output/reports.hpp"

#include <algorithm>

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
#include "scenarios/read/located_error.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/results/results_csv.hpp"
#include "scenarios/studies/suggestions.hpp"
#include "sim/step/run_compiled.hpp"

namespace tidemark {
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

// A run as events, for both formats of traces.
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

// Adds the files that each point has for itself. `suffix`: "-2" for the second of several points.
void add_detail(OutputFolder& output, const ReportFiles& files, const std::string& suffix,
                const DetailedPoint& point) {
  if (files.torch_snapshots)
    add_torch_snapshot(output, "torch_snapshot" + suffix + ".pickle", point);
  if (files.svg) add_timeline_svg(output, "timeline" + suffix, point);
  if (files.chrome_traces || files.perfetto_traces) add_traces(output, files, suffix, point);
}

}  // namespace

DetailedPoint simulate_in_detail(const Value& document, std::size_t index,
                                 const Environment& environment, const SimulateOptions& options) {
  Value point = document;
  const std::vector<std::vector<Override>> points = sweep_points(document);
  for (const Override& change : points.at(index))
    apply_override(point, change);
  DetailedPoint result{.document = point, .scenario = decode_scenario(point, environment)};
  try {
    result.detail.model = std::make_shared<const TrainedModel>(build_training(result.scenario));
    result.result = simulate(result.scenario, *result.detail.model, options, &result.detail);
  } catch (const UserError& error) {
    throw located(error, point);
  }
  const bool runs = result.result.run.status == RunStatus::kCompleted;
  if (options.suggestions && !runs && result.result.failure) {
    result.result.failure->tried =
        suggest_changes(point, result.scenario, *result.detail.model, environment, result.result);
  }
  return result;
}

ReportFiles report_files(const Value& document, const std::string& output_option,
                         const Environment& environment) {
  ReportFiles files;
  files.html = has_html_report();
  const Value* given = document.find("report");
  if (given != nullptr && !given->is_null()) {
    // The report does not differ between points, but only a point is a whole scenario.
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
  add_results(output, files, std::span(&point.result, 1));
  if (files.csv) add_timeline(output, "timeline.csv", point);
  add_detail(output, files, "", point);
  if (files.html) {
    HtmlPage page(std::span(&point.result, 1));
    page.add_charts(0, charts_of(point));
    page.write(output.add("report.html"));
  }
  output.commit();
}

void write_report(const ReportFiles& files, std::span<const PointResult> points,
                  std::span<const Value> documents, const Environment& environment,
                  const std::function<void(std::size_t, std::size_t)>& progress) {
  if (files.folder.empty()) return;
  OutputFolder output(files.folder);
  add_results(output, files, points);
  HtmlPage page(files.html ? points : std::span<const PointResult>());
  std::size_t number = 0;
  std::vector<NamedFigure> overlaid;
  std::size_t charted = 0;
  const auto built =
      static_cast<std::size_t>(std::count_if(points.begin(), points.end(), [](const auto& point) {
        return point.status != PointStatus::kError;
      }));
  const std::size_t detailed = files.any_detail() ? built
                               : files.html       ? std::min(built, kChartedPoints)
                                                  : 0;
  std::size_t done = 0;
  for (const Value& document : documents) {
    const std::size_t count = sweep_points(document).size();
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_built = points[number].status != PointStatus::kError;
      const bool charts = files.html && charted < kChartedPoints;
      ++number;
      if (!is_built || (!files.any_detail() && !charts)) continue;
      const DetailedPoint point =
          simulate_in_detail(document, i, environment, {.smallest_capacity = false});
      if (files.timelines) add_timeline(output, fmt::format("timeline-{}.csv", number), point);
      add_detail(output, files, fmt::format("-{}", number), point);
      if (files.svg) {
        overlaid.push_back({point_label(points[number - 1], number), figure_of(point)});
      }
      if (charts) {
        page.add_charts(number - 1, charts_of(point));
        ++charted;
      }
      if (progress) progress(++done, detailed);
    }
  }
  if (files.svg) {
    add_overlaid_svg(output, overlaid);
    add_pareto_svg(output, points, common_setting(overlaid));
  }
  if (files.html) page.write(output.add("report.html"));
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
