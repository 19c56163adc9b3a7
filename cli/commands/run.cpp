// tidemark run: simulates points and shows them.
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/command.hpp"
#include "cli/commands/run_elastic.hpp"
#include "cli/output/reports.hpp"
#include "cli/text/advice.hpp"
#include "cli/text/assumed_report.hpp"
#include "cli/text/point_summary.hpp"
#include "cli/text/points_table.hpp"
#include "cli/text/published.hpp"
#include "graph/core/errors.hpp"
#include "plots/report/html_report.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "plots/terminal_chart.hpp"
#include "scenarios/read/elastic_options.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {
namespace run_detail {
namespace {

constexpr const char* kRunExamples = R"(Examples:
  tidemark run scenario.yaml                         every point of the file's sweep, as a table
  tidemark run gpt2 --gpu a100-sxm-80gb              a preset without a file
  tidemark run models/llama-3-8b.json --gpu h100-sxm-80gb -s training.sequence=4096
  tidemark run scenario.yaml -s policies='[checkpoint_every: {period: 2}]'
  tidemark run scenario.yaml -o out --json > results.json

Exit codes: 0 a point fits; 1 none does; 2 bad input; 3 internal error.)";

std::string chart_of(const DetailedPoint& point, const Console& console) {
  const PointResult& result = point.result;
  ChartOptions options{.width = console.width,
                       .colour = console.colour,
                       .capacity = result.capacity,
                       .context = result.context,
                       .begin = point.detail.timeline.last_step_begin,
                       .end = point.detail.timeline.end};
  options.peak_note = place(result.peak.phase, result.peak.layer, result.peak.op);
  options.does_not_fit = result.run.status == RunStatus::kOutOfMemory;
  return draw_memory_chart(point.detail.compiled.program, point.detail.scratch,
                           point.detail.timeline, options);
}

std::string timing_of(const PointResult& point, bool colour) {
  Table table({{"pass"}, {"wall", Align::kRight}}, 2);
  Duration total{};
  for (const PassTime& pass : point.passes) {
    table.add_row({{pass.name}, {format_duration(pass.wall)}});
    total += pass.wall;
  }
  table.add_row({{"all passes"}, {format_duration(total)}});
  return table.text(colour);
}

void show_point(const DetailedPoint& point, const std::optional<AssumedReport>& assumed,
                const Environment& environment, const RunCommand& command, const Console& console) {
  std::string text = point_summary(point.result, point.detail, point.scenario, console.colour,
                                   console.terminal ? console.width : 0);
  if (assumed) {
    text +=
        wrap_lines(assumed_line(*assumed, console.colour), console.terminal ? console.width : 0);
  }
  if (point.result.status != PointStatus::kFits) {
    text += '\n' + explain_failure(point.result, environment, console.colour, console.width);
  }
  if (!command.no_chart) text += '\n' + chart_of(point, console);
  if (command.timing) text += '\n' + timing_of(point.result, console.colour);
  print(text);
}

// Warns of listed formats without a folder: they were meant to be written.
void warn_of_no_folder(const ReportFiles& files, const Console& console) {
  if (!files.folder.empty() || !files.listed) return;
  print_warning(console, fmt::format("report.formats lists {}, but there is no folder to write "
                                     "into: give -o DIR, or report.dir in the scenario",
                                     fmt::join(files.formats, ", ")));
}

int run_one(const Value& document, const Environment& environment, const RunCommand& command,
            const Console& console) {
  const ReportFiles files =
      report_files(document, command.folder, environment, command.input.reproduce(command.kName));
  check_free(files.folder);
  warn_of_no_folder(files, console);
  std::optional<AssumedReport> assumed;
  const DetailedPoint point = [&] {
    const Waiting waiting(console, "simulating", std::chrono::nanoseconds(0));
    DetailedPoint simulated = simulate_in_detail(
        document, 0, environment, {.convergence_limit = kConvergenceLimit, .suggestions = true});
    assumed = assumed_influence(simulated);
    return simulated;
  }();
  const std::span<const PointResult> points(&point.result, 1);
  check_free(files.folder);  // a sweep may have begun there
  write_report(files, point, assumed ? &*assumed : nullptr);
  if (command.json) {
    const TimeTerms terms = time_terms(point.result, point.detail);
    write_document(print, points, published_of(std::span(&document, 1)),
                   assumed ? &*assumed : nullptr, &terms);
  } else {
    show_point(point, assumed, environment, command, console);
    print(wrap_lines(published_text(published_of(std::span(&document, 1)), console.colour),
                     console.terminal ? console.width : 0));
  }
  return exit_code(points);
}

// Collects terminal charts of points that run on several threads: each below what the point
// changes.
class TerminalCharts {
 public:
  explicit TerminalCharts(const Console& console) : console_(console) {}

  void add(std::size_t index, const DetailedPoint& point) {
    std::string text = fmt::format(
        "\n{}\n{}",
        bold(setting_line(point.result, point.scenario, *point.detail.model), console_.colour),
        chart_of(point, console_));
    const std::lock_guard lock(mutex_);
    charts_[index] = std::move(text);
  }
  // Returns the charts in the order of the points.
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const auto& [index, chart] : charts_)
      all += chart;
    return all;
  }

 private:
  const Console& console_;
  std::mutex mutex_;
  std::map<std::size_t, std::string> charts_;
};

// Documents that name the same folder share its files.
struct ReportGroup {
  PointsReport report;
  std::vector<PointResult> points;
};

ReportGroup& group_of(std::deque<ReportGroup>& groups, ReportFiles files, const Console& console) {
  for (ReportGroup& group : groups) {
    if (group.report.files().folder == files.folder) return group;
  }
  check_free(files.folder);
  warn_of_no_folder(files, console);
  return groups.emplace_back(ReportGroup{PointsReport(std::move(files)), {}});
}

int run_many(const std::vector<Value>& documents, const Environment& environment,
             const RunCommand& command, const Console& console) {
  std::deque<ReportGroup> groups;
  std::vector<ReportGroup*> of_document;
  of_document.reserve(documents.size());
  const std::vector<PlotRequest> plots =
      parse_plots(command.plots.texts, documents, command.folder);
  for (const Value& document : documents) {
    ReportFiles files = report_files(document, command.folder, environment,
                                     command.input.reproduce(command.kName, command.plots.words()));
    files.plots = plots;
    files.point_command = command.input.point_command();
    of_document.push_back(&group_of(groups, std::move(files), console));
  }
  const bool draws = command.chart && !command.json;
  TerminalCharts charts(console);
  std::vector<PointResult> all;
  {
    Progress progress(console, documents.size() == 1 ? "points" : "points of this file");
    for (std::size_t d = 0; d < documents.size(); ++d) {
      ReportGroup& group = *of_document[d];
      PointsListener listener;
      listener.progress = [&](std::size_t done, std::size_t total) {
        progress.report(done, total);
      };
      if (draws || group.report.wants_detail()) {
        listener.detail = [&](std::size_t index, const SimulatedPoint& point) {
          if (draws) charts.add(all.size() + index, *point.detail);
          group.report.add(group.points.size() + index, point);
        };
      }
      const std::vector<PointResult> points =
          simulate_points(documents[d], environment, thread_count(command.threads),
                          {.convergence_limit = kConvergenceLimit, .suggestions = true}, listener);
      all.insert(all.end(), points.begin(), points.end());
      group.points.insert(group.points.end(), points.begin(), points.end());
    }
  }
  for (ReportGroup& group : groups) {
    check_free(group.report.files().folder);  // a sweep may have begun there
    group.report.write(group.points);
  }
  if (command.json) {
    write_document(print, all, published_of(documents));
  } else {
    print(points_table(all, console.colour, console.terminal ? console.width : 0) +
          wrap_lines(published_text(published_of(documents), console.colour),
                     console.terminal ? console.width : 0));
    if (draws) print(charts.text());
  }
  return exit_code(all);
}

}  // namespace
}  // namespace run_detail

void RunCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName, "simulate scenarios, or a model on a GPU");
  app->footer(run_detail::kRunExamples);
  input.add_options(*app, true, true);
  app->add_option(
         "-o,--output", folder,
         "write results.json, results.csv, timeline.csv and what `report` lists into this folder")
      ->type_name("DIR");
  plots.attach(*app);
  app->add_flag("--json", json, "print the result document and nothing else");
  app->add_option("-j,--threads", threads, "points that run at the same time (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  CLI::Option* with_chart =
      app->add_flag("--chart", chart, "draw memory over time also for each of several points");
  app->add_flag("--no-chart", no_chart, "draw no memory over time")->excludes(with_chart);
  app->add_flag("--timing", timing, "show how long each pass of the simulator took");
}

int RunCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  const std::vector<Value> documents = input.load();
  for (const Value& document : documents) {
    if (elastic_policy(document) == nullptr) continue;
    if (documents.size() == 1) return run_elastic(document, environment, *this, console);
    throw UserError(elastic_policy(document)->location, "policies.memory_elastic",
                    "is a study of one scenario; run its file on its own");
  }
  const bool one = documents.size() == 1 && sweep_points(documents.front()).size() == 1;
  if (one)
    static_cast<void>(parse_plots(plots.texts, documents, folder));  // one point has no sweep
  return one ? run_detail::run_one(documents.front(), environment, *this, console)
             : run_detail::run_many(documents, environment, *this, console);
}

}  // namespace tidemark
