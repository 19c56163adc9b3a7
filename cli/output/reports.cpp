#include "cli/output/reports.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "cli/output/figures.hpp"
#include "cli/output/formats.hpp"
#include "cli/output/html_page.hpp"
#include "cli/output/output_folder.hpp"
#include "cli/text/console.hpp"
#include "scenarios/results/charted_points.hpp"
#include "scenarios/studies/journal/sweep_lock.hpp"

namespace tidemark {
namespace reports_detail {
namespace {

void add_results(OutputFolder& output, const ReportFiles& files,
                 std::span<const PointResult> points, const AssumedReport* assumed = nullptr,
                 const TimeTerms* terms = nullptr) {
  for (const ReportFormat& format : report_formats()) {
    // Only the result document says what a single point hangs on, and where its time goes.
    if (terms != nullptr && format.name == "json" && files.wants(format.name)) {
      std::ofstream& out = output.add("results.json");
      write_document([&](std::string_view text) { out << text; }, points, {}, assumed, terms);
      continue;
    }
    if (format.add_points != nullptr && files.wants(format.name)) format.add_points(output, points);
  }
}

// Returns the first names of a list, and how many more there are.
std::string some_of(std::span<const std::string> names) {
  constexpr std::size_t kNamed = 6;
  const std::size_t named = std::min(names.size(), kNamed);
  const std::string text = fmt::format("{}", fmt::join(names.first(named), ", "));
  return names.size() > named ? fmt::format("{} and {} more", text, names.size() - named) : text;
}

}  // namespace
}  // namespace reports_detail

bool ReportFiles::wants(std::string_view format) const {
  return std::find(formats.begin(), formats.end(), format) != formats.end();
}

std::vector<const ReportFormat*> ReportFiles::of_runs(bool several) const {
  std::vector<const ReportFormat*> found;
  for (const ReportFormat& format : report_formats()) {
    const bool left_out = several && format.runs_only_if_listed && !listed;
    if (format.add_run != nullptr && !left_out && wants(format.name)) found.push_back(&format);
  }
  return found;
}

ReportFiles default_report_files(std::string folder, std::string reproduce) {
  ReportFiles files{.folder = std::move(folder)};
  files.reproduce = std::move(reproduce);
  if (has_html_report()) files.formats.emplace_back("html");
  return files;
}

ReportFiles report_files(const Value& document, const std::string& output_option,
                         const Environment& environment, std::string reproduce) {
  ReportFiles files = default_report_files(output_option, std::move(reproduce));
  const Value* given = document.find("report");
  if (given == nullptr || given->is_null()) return files;
  // The report is the same for all points, but only a point is a whole scenario.
  const Value point = point_document(document, sweep_points(document).front());
  const ReportOptions report = decode_scenario(point, environment).report;
  if (files.folder.empty()) files.folder = report.directory;
  files.listed = given->find("formats") != nullptr;
  if (files.listed) files.formats = report.formats;
  return files;
}

void write_report(const ReportFiles& files, const DetailedPoint& point,
                  const AssumedReport* assumed) {
  if (files.folder.empty()) return;
  OutputFolder output(files.folder);
  const std::span<const PointResult> points(&point.result, 1);
  const TimeTerms terms = time_terms(point.result, point.detail);
  reports_detail::add_results(output, files, points, assumed, &terms);
  for (const ReportFormat* format : files.of_runs(false))
    format->add_run(output, {.reproduce = files.reproduce}, point);
  if (files.wants("html")) {
    HtmlPage page(points, files.reproduce);
    page.add_charts(0, charts_of(point));
    page.write(output.add("report.html"));
  }
  output.commit_replacing();
  say_written(output);
}

struct PointsReport::Collected {
  std::mutex mutex;
  std::unique_ptr<OutputFolder> output;        // made as soon as there is something to write
  std::map<std::size_t, NamedFigure> figures;  // by point
  ChartCandidates candidates{kChartedPoints};
  std::map<std::size_t, PointCharts> charts;  // of the candidates
};

PointsReport::PointsReport(ReportFiles files)
    : files_(std::move(files)), collected_(std::make_unique<Collected>()) {}
PointsReport::~PointsReport() = default;
PointsReport::PointsReport(PointsReport&&) noexcept = default;
PointsReport& PointsReport::operator=(PointsReport&&) noexcept = default;

bool PointsReport::wants_detail() const {
  return !files_.folder.empty() && (!files_.of_runs(true).empty() || files_.wants("html"));
}

void PointsReport::add(std::size_t index, const SimulatedPoint& point) {
  if (!wants_detail() || point.detail == nullptr) return;
  Collected& all = *collected_;
  const std::lock_guard lock(all.mutex);
  const std::vector<const ReportFormat*> formats = files_.of_runs(true);
  if (!formats.empty() && all.output == nullptr)
    all.output = std::make_unique<OutputFolder>(files_.folder);
  for (const ReportFormat* format : formats)
    format->add_run(*all.output, {fmt::format("-{}", index + 1), files_.reproduce}, *point.detail);
  if (files_.wants("svg")) {
    all.figures[index] = {point_label(point.result, index + 1),
                          figure_of(*point.detail, files_.reproduce)};
  }
  if (!files_.wants("html")) return;
  for (const std::size_t replaced : all.candidates.add(index, point.result))
    all.charts.erase(replaced);
  if (all.candidates.is_candidate(index)) all.charts[index] = charts_of(*point.detail);
}

std::vector<std::size_t> PointsReport::without_charts(std::span<const PointResult> points) const {
  if (files_.folder.empty() || !files_.wants("html")) return {};
  std::vector<std::size_t> missing = charted_points(points, kChartedPoints);
  std::erase_if(missing, [&](std::size_t i) { return collected_->charts.contains(i); });
  return missing;
}

void PointsReport::write(std::span<const PointResult> points) {
  if (files_.folder.empty()) return;
  Collected& all = *collected_;
  if (all.output == nullptr) all.output = std::make_unique<OutputFolder>(files_.folder);
  OutputFolder& output = *all.output;
  reports_detail::add_results(output, files_, points);
  add_plots(output, files_.plots, points, files_.reproduce);
  if (files_.wants("svg")) {
    std::vector<NamedFigure> overlaid;
    for (auto& [index, figure] : all.figures)
      overlaid.push_back(std::move(figure));
    add_overlaid_svg(output, overlaid);
    add_pareto_svg(output, points, common_setting(overlaid), files_.reproduce);
  }
  if (files_.wants("html")) {
    HtmlPage page(points, files_.reproduce, files_.point_command);
    for (const std::size_t i : charted_points(points, kChartedPoints)) {
      const auto charts = all.charts.find(i);
      if (charts != all.charts.end()) page.add_charts(i, std::move(charts->second));
    }
    page.write(output.add("report.html"));
  }
  output.commit_replacing();
  say_written(output);
}

std::vector<PlotRequest> parse_plots(const std::vector<std::string>& texts,
                                     std::span<const Value> documents, const std::string& folder,
                                     const std::string& fitted) {
  if (!texts.empty() && folder.empty())
    throw UserError("--plot: a picture needs a folder; give -o DIR, too");
  std::vector<PlotRequest> plots;
  plots.reserve(texts.size());
  for (const std::string& text : texts)
    plots.push_back(parse_plot(text, documents, fitted));
  return plots;
}

void add_plots(OutputFolder& output, std::span<const PlotRequest> plots,
               std::span<const PointResult> points, const std::string& reproduce) {
  for (std::size_t p = 0; p < plots.size(); ++p) {
    const std::string stem = p == 0 ? "plot" : fmt::format("plot-{}", p + 1);
    if (add_swept_plot(output, stem, plots[p], points, reproduce)) continue;
    print_note(fmt::format("--plot: no point has the figure {}; no picture of it is drawn",
                           plots[p].y.text()));
  }
}

void say_written(const OutputFolder& output) {
  const std::vector<std::string> written = output.written();
  if (written.empty()) return;
  print_note(fmt::format("wrote {}", reports_detail::some_of(written)));
  if (output.left().empty()) return;
  print_note(fmt::format("kept, of an earlier report and perhaps changed since: {}",
                         reports_detail::some_of(output.left())));
}

void check_writable(const std::string& folder) {
  if (folder.empty()) return;
  const OutputFolder probe(folder);
}

void check_free(const std::string& folder) {
  if (folder.empty()) return;
  refuse_running_sweep(folder);
  check_writable(folder);
}

int exit_code(std::span<const PointResult> points) {
  const auto has = [&](PointStatus status) {
    return std::any_of(points.begin(), points.end(),
                       [&](const PointResult& point) { return point.status == status; });
  };
  if (has(PointStatus::kError)) return kExitBadInput;
  return points.empty() || has(PointStatus::kFits) ? kExitFits : kExitDoesNotFit;
}

}  // namespace tidemark
