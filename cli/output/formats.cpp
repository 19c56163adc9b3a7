#include "cli/output/formats.hpp"

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/output/figures.hpp"
#include "cli/output/results_sqlite.hpp"
#include "cli/text/assumed_report.hpp"
#include "cli/text/json_text.hpp"
#include "cli/text/time_report.hpp"
#include "plots/chrome_trace.hpp"
#include "plots/perfetto_trace.hpp"
#include "plots/timeline_csv.hpp"
#include "plots/torch_snapshot.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/results/results_csv.hpp"
#include "sim/step/run_compiled.hpp"
#include "tidemark/version.hpp"

namespace tidemark {
namespace formats_detail {
namespace {

void add_json(OutputFolder& output, std::span<const PointResult> points) {
  std::ofstream& out = output.add("results.json");
  write_document([&](std::string_view text) { out << text; }, points, {});
}

void add_csv(OutputFolder& output, std::span<const PointResult> points) {
  write_results_csv(output.add("results.csv"), points);
}

void add_sqlite(OutputFolder& output, std::span<const PointResult> points) {
  write_results_sqlite(output.add("results.sqlite"), points);
}

void add_timeline(OutputFolder& output, const RunFiles& files, const DetailedPoint& point) {
  write_timeline_csv(output.add("timeline" + files.suffix + ".csv"), point.detail.model->training,
                     point.detail.compiled.order, point.detail.compiled.program,
                     point.detail.timeline);
  for (std::size_t s = 0; s < point.detail.stages.size(); ++s) {
    const StageDetail& stage = point.detail.stages[s];
    write_timeline_csv(output.add(fmt::format("timeline{}.stage-{}.csv", files.suffix, s)),
                       stage.model->training, stage.compiled.order, stage.compiled.program,
                       stage.timeline);
  }
}

void add_torch_snapshot(OutputFolder& output, const RunFiles& files, const DetailedPoint& point) {
  const Compiled& compiled = point.detail.compiled;
  Scratch scratch;
  const auto recorder = run_recorded(point.scenario, compiled, scratch);
  write_torch_snapshot(output.add("torch_snapshot" + files.suffix + ".pickle"),
                       point.detail.model->training, compiled.order, compiled.program,
                       memory_timeline(compiled.program, scratch), *recorder);
}

void add_svg(OutputFolder& output, const RunFiles& files, const DetailedPoint& point) {
  add_timeline_svg(output, "timeline" + files.suffix, point, files.reproduce);
  add_addresses_svg(output, "addresses" + files.suffix, point, files.reproduce);
  add_pipeline_svg(output, "pipeline" + files.suffix, point);
}

TraceModel trace_of(const DetailedPoint& point) {
  const Compiled& compiled = point.detail.compiled;
  return trace_model(point.detail.model->training, compiled.order, compiled.program, compiled.costs,
                     point.detail.scratch, point.detail.timeline);
}

TraceTitle title_of(const DetailedPoint& point) {
  return {.name = point.result.name,
          .device = point.scenario.device.name,
          .capacity = point.result.capacity,
          .ranks = point.scenario.mesh.ranks()};
}

void add_chrome_trace(OutputFolder& output, const RunFiles& files, const DetailedPoint& point) {
  write_chrome_trace(output.add("trace" + files.suffix + ".json"), point.detail.model->training,
                     point.detail.compiled.program, trace_of(point), title_of(point));
}

void add_perfetto(OutputFolder& output, const RunFiles& files, const DetailedPoint& point) {
  write_perfetto_trace(output.add("trace" + files.suffix + ".perfetto-trace"),
                       point.detail.model->training, point.detail.compiled.program, trace_of(point),
                       title_of(point));
}

using Json = nlohmann::ordered_json;

// Moves all lines but the first to the right. Texts in JSON have no line breaks.
std::string indented(std::string_view json, std::size_t columns) {
  std::string text;
  text.reserve(json.size() * 3 / 2);
  for (const char c : json) {
    text += c;
    if (c == '\n') text.append(columns, ' ');
  }
  return text;
}

// Returns a member of the document's outermost object, without the comma behind it.
std::string member(std::string_view name, const Json& value) {
  return fmt::format("  {}: {}", json_text(Json(name), -1), indented(json_text(value), 2));
}

constexpr std::array<ReportFormat, 8> kFormats{{
    {.name = "json", .add_points = add_json},
    {.name = "csv", .add_run = add_timeline, .runs_only_if_listed = true, .add_points = add_csv},
    {.name = "torch_snapshot", .add_run = add_torch_snapshot},
    {.name = "svg", .add_run = add_svg},
    {.name = "chrome_trace", .add_run = add_chrome_trace},
    {.name = "perfetto", .add_run = add_perfetto},
    {.name = "sqlite", .add_points = add_sqlite},
    {.name = "html"},
}};

}  // namespace
}  // namespace formats_detail

std::span<const ReportFormat> report_formats() {
  return formats_detail::kFormats;
}

void write_document(const TextSink& write, std::span<const PointResult> points,
                    const std::vector<std::string>& published, const AssumedReport* assumed,
                    const TimeTerms* terms) {
  namespace detail = formats_detail;
  write("{\n" + detail::member("tidemark", kVersion) + ",\n  \"points\": [");
  for (std::size_t i = 0; i < points.size(); ++i) {
    detail::Json entry = result_entry(points[i]);
    if (i == 0 && assumed != nullptr) entry["assumed"] = assumed_json(*assumed);
    if (i == 0 && terms != nullptr) add_time_terms(entry, *terms);
    write((i == 0 ? "\n    " : ",\n    ") + detail::indented(json_text(entry), 4));
  }
  write(points.empty() ? "]" : "\n  ]");
  if (!published.empty()) write(",\n" + detail::member("published", published));
  write("\n}\n");
}

}  // namespace tidemark
