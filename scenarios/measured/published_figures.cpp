#include "scenarios/measured/published_figures.hpp"

#include <cmath>
#include <cstddef>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/errors.hpp"
#include "scenarios/read/published.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/results/results_csv.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {
namespace published_figures_detail {
namespace {

// Returns what a figure counts among over all scenarios; empty where it is neither bytes nor a
// speed.
std::string overall_of(const Expression& figure, const PointResult& point) {
  const bool speed =
      figure.unit() == FigureUnit::kSeconds || figure.text().starts_with("throughput.");
  if (!speed && figure.unit() != FigureUnit::kBytes) return {};
  return overall_group(!speed, point.mesh.ranks());
}

std::string text_of(const PointResult& point, std::size_t index, std::size_t points) {
  if (points == 1) return point.name;
  std::string text = fmt::format("point {}", index + 1);
  for (const Override& change : point.overrides)
    text += fmt::format(" {}={}", change.key, override_text(point, change.key));
  return excerpt(text);
}

}  // namespace
}  // namespace published_figures_detail

bool is_scenario_name(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml");
}

void validate_published(const std::string& file, bool named, const Environment& environment,
                        int threads, Validation& validation) {
  const Value document = load_scenario(file);
  const std::vector<PointDocument> points = point_documents(document);
  if (points.empty()) return;
  const Scenario first = decode_scenario(points.front().document, environment);
  const std::vector<PublishedFigure> figures = decode_published(document, first.device.figures);
  if (figures.empty()) {
    if (named) {
      throw UserError({.file = file}, "published",
                      "no figures are published here: published: [{source: TEXT, figure: "
                      "memory.peak_active, values: [60.0GiB]}]");
    }
    return;
  }
  check_published(figures, points.size());
  std::vector<bool> wanted(points.size(), false);
  for (const PublishedFigure& figure : figures) {
    for (std::size_t i = 0; i < points.size(); ++i)
      wanted[i] = wanted[i] || figure.values[i].has_value();
  }
  const std::vector<PointResult> results =
      simulate_points(document, environment, threads, {.smallest_capacity = false}, {}, wanted);
  for (const PublishedFigure& figure : figures) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (!figure.values[i]) continue;
      const PointResult& point = results[i];
      if (point.status == PointStatus::kError) {
        ++validation.other[fmt::format("cannot be built: {}", point.error)];
        continue;
      }
      const nlohmann::ordered_json entry = result_entry(point);
      const double predicted = figure.figure.value(known_figures(
          figures_of(entry, first.device.figures), point.status == PointStatus::kFits));
      if (!std::isfinite(predicted)) {
        ++validation.other["figures that the simulated step does not have"];
        continue;
      }
      validation.rows.push_back(
          {.group = first.name,
           .metric = figure.figure.text(),
           .text = published_figures_detail::text_of(point, i, points.size()),
           .file = file,
           .line = figure.location.line,
           .overall = published_figures_detail::overall_of(figure.figure, point),
           .predicted = predicted,
           .measured = *figure.values[i]});
    }
  }
}

}  // namespace tidemark
