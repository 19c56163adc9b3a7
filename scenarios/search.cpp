#include "scenarios/search.hpp"

#include <algorithm>
#include <cmath>

#include "scenarios/result_document.hpp"

namespace tidemark {

SearchResult search(const Value& document, const Environment& environment, int threads,
                    const SimulateOptions& options, const PointsListener& listener) {
  const std::vector<PointDocument> documents = point_documents(document);
  // Of the first point that can be read; the goal is checked before an hour of simulation.
  const auto device_of_point = [&](const PointDocument& point) {
    return decode_scenario(point.document, environment).device.figures;
  };
  SearchResult found{.goal = decode_goal(document, device_of_point(documents.front()))};
  std::vector<PointResult> results =
      simulate_points(document, environment, threads, options, listener);
  for (std::size_t i = 0; i < results.size(); ++i) {
    SearchPoint point{.result = std::move(results[i])};
    if (point.result.status != PointStatus::kError) {
      const std::vector<Figure> device = device_of_point(documents[i]);
      const auto entry = result_document(std::span(&point.result, 1)).at("points").at(0);
      const FigureLookup figures = figures_of(entry, device);
      point.objective = found.goal.objective.value(figures);
      for (std::size_t c = 0; c < found.goal.subject_to.size(); ++c) {
        if (!found.goal.subject_to[c].holds(figures)) point.breaks.push_back(c);
      }
      point.feasible = point.result.status == PointStatus::kFits && point.breaks.empty() &&
                       std::isfinite(point.objective);
    }
    if (point.feasible) found.ranking.push_back(i);
    found.points.push_back(std::move(point));
  }
  std::stable_sort(found.ranking.begin(), found.ranking.end(), [&](std::size_t a, std::size_t b) {
    const double left = found.points[a].objective;
    const double right = found.points[b].objective;
    return found.goal.maximize ? left > right : left < right;
  });
  return found;
}

}  // namespace tidemark
