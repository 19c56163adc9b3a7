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

// Returns the figures that a goal names.
std::vector<std::string> figures_named(const Goal& goal) {
  std::vector<std::string> names;
  for (const auto* expressions : {&goal.objectives, &goal.subject_to}) {
    for (const Expression& expression : *expressions)
      names.insert(names.end(), expression.names().begin(), expression.names().end());
  }
  return names;
}

// Returns the figures of policies that a goal names.
std::vector<std::string> policy_figures(const Goal& goal) {
  std::vector<std::string> names = figures_named(goal);
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

// Returns the bytes of device memory that a point lacks; not a number where they are not known.
double missing_memory(const PointResult& point) {
  const bool device = point.status == PointStatus::kOutOfMemory &&
                      point.run.status != RunStatus::kOutOfHostMemory &&
                      point.run.status != RunStatus::kOutOfNvme;
  const Bytes missing = point.device_that_does() - point.capacity;
  return device && missing > Bytes(0) ? static_cast<double>(missing.count) : std::nan("");
}

// A step that does not run to its end has no throughput and no cost; the document says 0.
bool needs_whole_step(std::string_view figure) {
  return figure.starts_with("throughput.") || figure.starts_with("cost.") ||
         figure.ends_with("_utilization");
}

// Compares a point's figures with the goal.
void judge(SearchPoint& point, const Goal& goal, const FigureLookup& figures) {
  const bool fits = point.result.status == PointStatus::kFits;
  const FigureLookup known = [&](std::string_view name) {
    const double value = figures(name);
    return fits || value != 0 || !needs_whole_step(name) ? value : std::nan("");
  };
  for (const Expression& objective : goal.objectives)
    point.objectives.push_back(objective.value(known));
  if (!fits)
    point.breaks.push_back({.constraint = std::nullopt, .by = missing_memory(point.result)});
  for (std::size_t c = 0; c < goal.subject_to.size(); ++c) {
    if (!goal.subject_to[c].holds(known))
      point.breaks.push_back({.constraint = c, .by = goal.subject_to[c].excess(known)});
  }
  point.feasible =
      point.breaks.empty() && std::all_of(point.objectives.begin(), point.objectives.end(),
                                          [](double value) { return std::isfinite(value); });
}

// Ranks the feasible points, and finds those that no other dominates: a point can be dominated by
// those before it only.
void rank(SearchResult& found) {
  for (std::size_t i = 0; i < found.points.size(); ++i) {
    if (found.points[i].feasible) found.ranking.push_back(i);
  }
  std::stable_sort(found.ranking.begin(), found.ranking.end(), [&](std::size_t a, std::size_t b) {
    const std::vector<double>& left = found.points[a].objectives;
    const std::vector<double>& right = found.points[b].objectives;
    return found.goal.maximize ? left > right : left < right;
  });
  for (const std::size_t i : found.ranking) {
    const bool dominated =
        std::any_of(found.front.begin(), found.front.end(), [&](std::size_t better) {
          return found.points[better].dominates(found.points[i], found.goal.maximize);
        });
    if (!dominated) found.front.push_back(i);
  }
}

}  // namespace
}  // namespace search_detail

bool SearchPoint::dominates(const SearchPoint& other, bool maximize) const {
  bool better = false;
  for (std::size_t k = 0; k < objectives.size(); ++k) {
    const double gain =
        maximize ? objectives[k] - other.objectives[k] : other.objectives[k] - objectives[k];
    if (gain < 0) return false;
    better = better || gain > 0;
  }
  return better;
}

SearchResult search(const Value& document, const Environment& environment, int threads,
                    const SimulateOptions& options, const PointsListener& listener) {
  const std::vector<PointDocument> documents = point_documents(document);
  // A mistake in the goal must show before an hour of simulation.
  const search_detail::Read read = search_detail::read_points(documents, environment);
  SearchResult found{.goal = decode_goal(document, read.devices[read.first])};
  search_detail::check_policies(document, found.goal, read.policies);
  SimulateOptions simulated = options;
  for (const std::string& name : search_detail::figures_named(found.goal)) {
    if (name == "memory.smallest_capacity") simulated.smallest_capacity_of_fitting = true;
  }
  std::vector<PointResult> results =
      simulate_points(document, environment, threads, simulated, listener);
  std::vector<std::string> unseen = search_detail::policy_figures(found.goal);
  bool built = false;
  for (std::size_t i = 0; i < results.size(); ++i) {
    SearchPoint point{.result = std::move(results[i])};
    if (point.result.status == PointStatus::kError) {
      point.objectives.assign(found.goal.objectives.size(), std::nan(""));
    } else {
      const auto entry = result_document(std::span(&point.result, 1)).at("points").at(0);
      built = true;
      std::erase_if(unseen, [&](const std::string& name) { return has_figure(entry, name); });
      search_detail::judge(point, found.goal, figures_of(entry, read.devices[i]));
    }
    found.points.push_back(std::move(point));
  }
  if (built && !unseen.empty()) {
    throw UserError(document.find("goal")->location, "goal",
                    fmt::format("no point has the figure {}; `run --json` shows them",
                                tidemark::quoted_excerpt(unseen.front())));
  }
  search_detail::rank(found);
  return found;
}

}  // namespace tidemark
