#include "scenarios/measured/published_figures.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/document.hpp"
#include "graph/core/errors.hpp"
#include "graph/core/piped_files.hpp"
#include "scenarios/read/published.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/results/results_csv.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {
namespace published_figures_detail {
namespace {

ValueUnit unit_of(const Expression& figure) {
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
  const ValueUnit unit = unit_of(figure);
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

struct PublishedIn {
  const std::string& file;
  const std::string& name;
};

void add_row(const PublishedFigure& figure, std::size_t index,
             const std::vector<PointDocument>& points, const PointResult& point,
             const PublishedIn& in, const Environment& environment, Validation& validation) {
  if (point.status == PointStatus::kError) {
    ++validation.other[fmt::format("cannot be built: {}", point.error)];
    return;
  }
  const bool fits = point.status == PointStatus::kFits;
  const nlohmann::ordered_json entry = result_entry(point);
  const Scenario scenario = decode_scenario(points[index].document, environment);
  const double predicted =
      figure.figure.value(known_figures(figures_of(entry, scenario.device.figures), fits));
  // A step that runs out of memory says what it would need, and no time.
  if (!std::isfinite(predicted) || (!fits && unit_of(figure.figure) == ValueUnit::kSeconds)) {
    ++validation.other["figures that the simulated step does not have"];
    return;
  }
  validation.rows.push_back(
      {.group = in.name,
       .metric = figure.figure.text(),
       .unit = unit_of(figure.figure),
       .text = text_of(point, index, points.size()) + (fits ? "" : " (does not fit)"),
       .file = in.file,
       .line = figure.location.line,
       .overall = overall_of(figure.figure, point),
       .predicted = predicted,
       .measured = *figure.values[index]});
}

}  // namespace
}  // namespace published_figures_detail

bool is_scenario_to_validate(const std::string& path) {
  if (path.ends_with(".yaml") || path.ends_with(".yml")) return true;
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
  const std::vector<PointResult> results =
      simulate_points(document, environment, threads, {.smallest_capacity = smallest}, {}, wanted);
  for (const PublishedFigure& figure : figures) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (figure.values[i])
        detail::add_row(figure, i, points, results[i], {file, first.name}, environment, validation);
    }
  }
}

}  // namespace tidemark
