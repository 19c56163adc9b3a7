#include "scenarios/studies/search.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/simulate_points.hpp"

namespace tidemark {

namespace search_detail {
namespace {

// Facts about the points that are read before they are simulated.
struct Read {
  std::vector<std::vector<Figure>> devices;  // by point; empty if it cannot be read
  std::size_t first = 0;                     // the first point that can be read
  std::vector<std::string> policies;         // names used by any point
};

Read read_points(const std::vector<PointDocument>& documents, const Environment& environment) {
  Read read{.devices = std::vector<std::vector<Figure>>(documents.size())};
  std::optional<UserError> mistake;
  for (std::size_t i = documents.size(); i-- > 0;) {
    try {
      if (!documents[i].error.empty()) throw UserError(documents[i].error);
      const Scenario scenario = decode_scenario(documents[i].document, environment);
      read.devices[i] = scenario.device.figures;
      read.first = i;
      for (const std::string& name : scenario.policy_names) {
        if (std::find(read.policies.begin(), read.policies.end(), name) == read.policies.end())
          read.policies.push_back(name);
      }
    } catch (const UserError& error) {
      mistake = error;
    }
  }
  const bool none = std::all_of(read.devices.begin(), read.devices.end(),
                                [](const auto& device) { return device.empty(); });
  if (none && mistake) throw UserError(*mistake);
  return read;
}

// Returns the figures of policies that a goal names.
std::vector<std::string> policy_figures(const Goal& goal) {
  std::vector<std::string> names = goal.objective.names();
  for (const Expression& expression : goal.subject_to)
    names.insert(names.end(), expression.names().begin(), expression.names().end());
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("policies."); });
  return names;
}

void check_policies(const Value& document, const Goal& goal,
                    const std::vector<std::string>& listed) {
  for (const std::string& figure : policy_figures(goal)) {
    const std::size_t begin = figure.find('.') + 1;
    const std::string name = figure.substr(begin, figure.find('.', begin) - begin);
    if (std::find(listed.begin(), listed.end(), name) != listed.end()) continue;
    throw UserError(document.find("goal")->location, "goal",
                    fmt::format("{}: no point has the policy {}{}", figure,
                                tidemark::quoted_excerpt(name), did_you_mean(name, listed)));
  }
}

}  // namespace
}  // namespace search_detail

SearchResult search(const Value& document, const Environment& environment, int threads,
                    const SimulateOptions& options, const PointsListener& listener) {
  const std::vector<PointDocument> documents = point_documents(document);
  // A mistake in the goal must show before an hour of simulation.
  const search_detail::Read read = search_detail::read_points(documents, environment);
  SearchResult found{.goal = decode_goal(document, read.devices[read.first])};
  search_detail::check_policies(document, found.goal, read.policies);
  std::vector<PointResult> results =
      simulate_points(document, environment, threads, options, listener);
  std::vector<std::string> unseen = search_detail::policy_figures(found.goal);
  bool built = false;
  for (std::size_t i = 0; i < results.size(); ++i) {
    SearchPoint point{.result = std::move(results[i])};
    if (point.result.status != PointStatus::kError) {
      const auto entry = result_document(std::span(&point.result, 1)).at("points").at(0);
      built = true;
      std::erase_if(unseen, [&](const std::string& name) { return has_figure(entry, name); });
      const FigureLookup figures = figures_of(entry, read.devices[i]);
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
  if (built && !unseen.empty()) {
    throw UserError(document.find("goal")->location, "goal",
                    fmt::format("no point has the figure {}; `run --json` shows them",
                                tidemark::quoted_excerpt(unseen.front())));
  }
  std::stable_sort(found.ranking.begin(), found.ranking.end(), [&](std::size_t a, std::size_t b) {
    const double left = found.points[a].objective;
    const double right = found.points[b].objective;
    return found.goal.maximize ? left > right : left < right;
  });
  return found;
}

}  // namespace tidemark
