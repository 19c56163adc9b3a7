#include "cli/output/figures.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "cli/text/override_words.hpp"
#include "cli/text/point_summary.hpp"
#include "cli/text/wording.hpp"
#include "plots/address_figure.hpp"
#include "plots/comparison_charts.hpp"
#include "plots/drawing/pdf_file.hpp"
#include "plots/drawing/svg_file.hpp"
#include "plots/pipeline_picture.hpp"
#include "plots/svg.hpp"
#include "scenarios/results/compared_time.hpp"
#include "sim/step/run_compiled.hpp"

namespace tidemark {
namespace figures_detail {
namespace {

std::string time_column(WorkUnit unit) {
  switch (unit) {
    case WorkUnit::kStep:
      return "seconds_per_step";
    case WorkUnit::kSample:
      return "seconds_per_sample";
    case WorkUnit::kThousandTokens:
      return "seconds_per_1000_tokens";
  }
  return "";
}

}  // namespace
}  // namespace figures_detail

void add_chart(OutputFolder& output, const std::string& stem, const SvgChart& chart) {
  const Drawing drawing = draw(chart);
  write_svg(output.add(stem + ".svg"), drawing);
  write_pdf(output.add(stem + ".pdf"), drawing);
}

MemoryFigure figure_of(const DetailedPoint& point, const std::string& reproduce) {
  const PointResult& result = point.result;
  const PointDetail& detail = point.detail;
  return memory_figure(detail.compiled.program, detail.scratch, detail.timeline,
                       {.title = result.name,
                        .subtitle = setting_line(result, point.scenario, *detail.model),
                        .capacity = result.capacity,
                        .context = result.context,
                        .begin = detail.timeline.last_step_begin,
                        .end = detail.timeline.end,
                        .peak_note = place(result.peak.phase, result.peak.layer, result.peak.op),
                        .reproduce = reproduce,
                        .does_not_fit = result.run.status == RunStatus::kOutOfMemory});
}

void add_timeline_svg(OutputFolder& output, const std::string& stem, const DetailedPoint& point,
                      const std::string& reproduce) {
  const MemoryFigure figure = figure_of(point, reproduce);
  add_chart(output, stem, memory_chart(figure));
  write_memory_figure_csv(output.add(stem + ".svg.csv"), figure);
}

void add_addresses_svg(OutputFolder& output, const std::string& stem, const DetailedPoint& point,
                       const std::string& reproduce) {
  const Compiled& compiled = point.detail.compiled;
  const AddressLayout layout = address_layout(point.scenario, compiled, point.detail.timeline,
                                              point.result.status == PointStatus::kFits);
  const MemoryFigure figure = figure_of(point, reproduce);
  const AddressFigure addresses = address_figure(point.detail.model->training, compiled.program,
                                                 point.detail.timeline, layout, figure);
  if (addresses.allocations.empty()) return;
  add_chart(output, stem, address_chart(addresses, figure));
  write_address_figure_csv(output.add(stem + ".svg.csv"), addresses);
}

void add_pipeline_svg(OutputFolder& output, const std::string& stem, const DetailedPoint& point) {
  const std::vector<StageResult>& stages = point.result.stages;
  if (stages.empty()) return;
  write_pipeline_picture(output.add(stem + ".svg"), point.result.name,
                         setting_line(point.result, point.scenario, *point.detail.model), stages);
  write_pipeline_csv(output.add(stem + ".svg.csv"), stages);
}

std::string point_label(const PointResult& point, std::size_t number) {
  std::string label = changed_value(point.overrides, "name");
  if (label.empty()) label = changes_in_words(point.overrides, {.bare_hardware = true});
  if (label.empty()) label = point.name;
  return label.empty() ? fmt::format("point {}", number) : label;
}

void add_overlaid_svg(OutputFolder& output, const std::vector<NamedFigure>& runs) {
  if (runs.size() < 2 || runs.size() > kOverlaid) return;
  std::set<std::string> titles;
  for (const NamedFigure& run : runs)
    titles.insert(run.figure.options.title);
  SvgChart chart = overlaid_memory_chart(titles.size() == 1 ? *titles.begin() : "", runs);
  chart.reproduce = runs.front().figure.options.reproduce;
  add_chart(output, "timelines", chart);
  write_overlaid_memory_csv(output.add("timelines.svg.csv"), runs);
}

void add_pareto_svg(OutputFolder& output, std::span<const PointResult> points,
                    const std::string& setting, const std::string& reproduce) {
  std::set<std::int64_t> capacities;
  const WorkUnit unit = compared_unit(points);
  std::vector<TradeOff> runs;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const PointResult& point = points[i];
    if (point.status == PointStatus::kError) continue;
    capacities.insert(point.capacity.count);
    if (!seconds_per(unit, point)) continue;
    runs.push_back({.name = point_label(point, i + 1),
                    .memory = point.device_needed(),
                    .seconds = seconds_per(unit, point).value_or(0),
                    .fits = point.status == PointStatus::kFits});
  }
  if (runs.size() < 2) return;
  const Bytes capacity = capacities.size() == 1 ? Bytes(*capacities.begin()) : Bytes(0);
  SvgChart chart =
      pareto_chart(title_of(points), runs, capacity, fmt::format("time of {}", name_of(unit)));
  chart.subtitle = setting;
  chart.reproduce = reproduce;
  add_chart(output, "pareto", chart);
  write_pareto_csv(output.add("pareto.svg.csv"), runs, figures_detail::time_column(unit));
}

}  // namespace tidemark
