#include "scenarios/measured/published_figures.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/paths.hpp"
#include "graph/core/piped_files.hpp"
#include "scenarios/read/goal.hpp"
#include "scenarios/read/published.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/results/results_csv.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {
namespace published_figures_detail {
namespace {

ValueUnit value_unit_of(const Expression& figure) {
  if (figure.unit() == FigureUnit::kBytes) return ValueUnit::kBytes;
  return figure.unit() == FigureUnit::kSeconds ? ValueUnit::kSeconds : ValueUnit::kNumber;
}

// Returns what a figure counts among over all scenarios; empty where it is neither bytes, a time
// nor a rate.
std::string overall_of(const Expression& figure, const PointResult& point) {
  const std::vector<std::string>& names = figure.names();
  const bool rate = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.starts_with("throughput.") && !name.ends_with("_utilization");
  });
  const ValueUnit unit = value_unit_of(figure);
  if (unit == ValueUnit::kNumber && !rate) return {};
  return overall_group(unit, point.mesh.ranks());
}

std::string text_of(const PointResult& point, std::size_t index, std::size_t points) {
  if (points == 1) return point.name;
  std::string text = fmt::format("point {}", index + 1);
  for (const Override& change : point.overrides)
    text += fmt::format(" {}={}", change.key, override_text(point, change.key));
  return excerpt(text);
}

// Whether a file is a scenario that publishes figures.
bool publishes_figures(const std::string& file) {
  try {
    return has_published_figures(read_document(file));
  } catch (const UserError&) {  // YAML of another kind, a table, or what is packed
    return false;
  }
}

// A point of which a figure is published.
struct PublishedPoint {
  PointResult result;
  std::string text;
  nlohmann::ordered_json entry;
  std::vector<Figure> device;
};

PublishedPoint published_point(const PointDocument& document, PointResult result, std::string text,
                               const Environment& environment) {
  PublishedPoint point{
      .result = std::move(result), .text = std::move(text), .entry = {}, .device = {}};
  if (point.result.status == PointStatus::kError) return point;
  point.entry = result_entry(point.result);
  point.device = decode_scenario(document.document, environment).device.figures;
  return point;
}

void add_row(const PublishedFigure& figure, double measured, const PublishedPoint& point,
             const std::string& file, const std::string& name, Validation& validation) {
  if (point.result.status == PointStatus::kError) {
    ++validation.other[fmt::format("cannot be built: {}", point.result.error)];
    return;
  }
  const bool fits = point.result.status == PointStatus::kFits;
  const ValueUnit unit = value_unit_of(figure.figure);
  const double predicted =
      figure.figure.value(known_figures(figures_of(point.entry, point.device), fits));
  // A step that runs out of memory says what it would need, and no time.
  if (!std::isfinite(predicted) || (!fits && unit == ValueUnit::kSeconds)) {
    ++validation.other["figures that the simulated step does not have"];
    return;
  }
  validation.rows.push_back({.group = name,
                             .metric = figure.figure.text(),
                             .unit = unit,
                             .text = point.text + (fits ? "" : " (does not fit)"),
                             .file = file,
                             .line = figure.location.line,
                             .overall = overall_of(figure.figure, point.result),
                             .predicted = predicted,
                             .measured = measured});
}

}  // namespace
}  // namespace published_figures_detail

bool is_scenario_to_validate(const std::string& path) {
  if (is_yaml_name(path)) return true;
  return is_open_file_of_process(path) && published_figures_detail::publishes_figures(path);
}

void validate_published(const std::string& file, bool named, const Environment& environment,
                        int threads, Validation& validation) {
  namespace detail = published_figures_detail;
  // Profiles and models may lie in the same folder.
  if (!named && !detail::publishes_figures(file)) {
    ++validation.other["files of YAML without published figures"];
    return;
  }
  const Value document = load_scenario(file);
  const std::vector<PointDocument> points = point_documents(document);
  if (points.empty()) return;
  const Scenario first = decode_scenario(points.front().document, environment);
  const std::vector<PublishedFigure> figures = decode_published(document, first.device.figures);
  if (figures.empty()) {
    throw UserError({.file = file}, "published",
                    "no figures are published here: published: [{source: TEXT, figure: "
                    "memory.peak_active, values: [60.0GiB]}]");
  }
  check_published(figures, points.size());
  std::vector<bool> wanted(points.size(), false);
  bool smallest = false;
  for (const PublishedFigure& figure : figures) {
    for (std::size_t i = 0; i < points.size(); ++i)
      wanted[i] = wanted[i] || figure.values[i].has_value();
    for (const std::string& name : figure.figure.names())
      smallest = smallest || name == "memory.smallest_capacity";
  }
  std::vector<PointResult> results =
      simulate_points(document, environment, threads, {.smallest_capacity = smallest}, {}, wanted);
  std::vector<detail::PublishedPoint> published(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!wanted[i]) continue;
    std::string text = detail::text_of(results[i], i, points.size());
    published[i] =
        detail::published_point(points[i], std::move(results[i]), std::move(text), environment);
  }
  for (const PublishedFigure& figure : figures) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (figure.values[i])
        detail::add_row(figure, *figure.values[i], published[i], file, first.name, validation);
    }
  }
}

}  // namespace tidemark
