#include "scenarios/studies/search/search.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "graph/core/decoder.hpp"
#include "graph/core/errors.hpp"
#include "scenarios/results/result_document.hpp"
#include "scenarios/studies/parallel.hpp"
#include "scenarios/studies/search/explore.hpp"

namespace tidemark {
namespace search_detail {
namespace {

// Facts about the points that are read before anything is simulated.
struct Read {
  std::vector<std::vector<Figure>> devices;  // by point; empty if it cannot be read
  std::vector<std::string> names;            // by point
  std::size_t first = 0;                     // the first point that can be read
  std::vector<std::string> policies;         // names used by any point
};

Read read_points(const std::vector<PointDocument>& documents, const Environment& environment,
                 int threads) {
  Read read{.devices = std::vector<std::vector<Figure>>(documents.size()),
            .names = std::vector<std::string>(documents.size()),
            .first = documents.size()};
  std::optional<std::pair<std::size_t, UserError>> mistake;  // of the first point that has one
  std::mutex mutex;
  for_each_parallel(documents.size(), threads, [&](std::size_t i) {
    try {
      if (!documents[i].error.empty()) throw UserError(documents[i].error);
      const Scenario scenario = decode_scenario(documents[i].document, environment);
      read.devices[i] = scenario.device.figures;
      read.names[i] = scenario.name;
      const std::lock_guard lock(mutex);
      read.first = std::min(read.first, i);
      for (const std::string& name : scenario.policy_names) {
        if (std::find(read.policies.begin(), read.policies.end(), name) == read.policies.end())
          read.policies.push_back(name);
      }
    } catch (const UserError& error) {
      const std::lock_guard lock(mutex);
      if (!mistake || i < mistake->first) mistake.emplace(i, error);
    }
  });
  if (read.first == documents.size() && mistake) throw UserError(mistake->second);
  std::sort(read.policies.begin(), read.policies.end());
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

[[noreturn]] void fail_without(const Value& document, const std::string& figure) {
  throw UserError(document.find("goal")->location, "goal",
                  fmt::format("no point has the figure {}; `run --json` shows them",
                              tidemark::quoted_excerpt(figure)));
}

// Whether a policy that solves for a budget, or another one, may have a figure of that name.
bool may_have(const std::string& policy, const std::string& figure) {
  PointResult solved;
  solved.status = PointStatus::kFits;
  solved.policies = {{.name = policy}};
  solved.budgets = {Bytes(1)};
  PointResult planned = solved;
  planned.policies.front().plan = PlanFigures{};
  return has_figure(result_entry(solved), figure) || has_figure(result_entry(planned), figure);
}

void check_policies(const Value& document, const Goal& goal,
                    const std::vector<std::string>& listed) {
  for (const std::string& figure : policy_figures(goal)) {
    const std::size_t begin = figure.find('.') + 1;
    const std::string name = figure.substr(begin, figure.find('.', begin) - begin);
    if (std::find(listed.begin(), listed.end(), name) == listed.end()) {
      throw UserError(document.find("goal")->location, "goal",
                      fmt::format("{}: no point has the policy {}{}", figure,
                                  tidemark::quoted_excerpt(name), did_you_mean(name, listed)));
    }
    if (!may_have(name, figure)) fail_without(document, figure);
  }
}

// Throws for a figure of a policy that no point has. Points that were not simulated might have it.
void check_figures(const Value& document, const SearchResult& found) {
  std::vector<std::string> unseen = policy_figures(found.goal);
  bool built = false;
  for (const SearchPoint& point : found.points) {
    if (unseen.empty() || point.result.status == PointStatus::kError) continue;
    built = true;
    const auto entry = result_entry(point.result);
    std::erase_if(unseen, [&](const std::string& name) { return has_figure(entry, name); });
  }
  if (!built || unseen.empty() || !found.excluded.empty()) return;
  fail_without(document, unseen.front());
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
          return dominates(found.points[better].objectives, found.points[i].objectives,
                           found.goal.maximize);
        });
    if (!dominated) found.front.push_back(i);
  }
}

}  // namespace
}  // namespace search_detail

bool dominates(const std::vector<double>& figures, const std::vector<double>& others,
               bool maximize) {
  bool better = false;
  for (std::size_t k = 0; k < figures.size(); ++k) {
    const double gain = maximize ? figures[k] - others[k] : others[k] - figures[k];
    if (gain < 0) return false;
    better = better || gain > 0;
  }
  return better;
}

Proof proof_of(const SearchResult& found) {
  Proof proof;
  const auto better = [&](double a, double b) { return found.goal.maximize ? a > b : a < b; };
  if (!found.ranking.empty()) {
    const std::vector<double>& best = found.points[found.ranking.front()].objectives;
    if (!best.empty()) proof.bound = best.front();
  }
  bool known = proof.bound.has_value();
  for (const ExcludedPoint& point : found.excluded) {
    if (!point.by_smaller) continue;
    const std::vector<double>& most = point.objectives;
    const bool looked = !most.empty() && std::all_of(most.begin(), most.end(), [](double value) {
      return std::isfinite(value);
    });
    const bool beaten =
        looked && std::any_of(found.ranking.begin(), found.ranking.end(), [&](std::size_t i) {
          const std::vector<double>& answer = found.points[i].objectives;
          return answer == most || dominates(answer, most, found.goal.maximize);
        });
    if (beaten) continue;
    ++proof.assumed;
    known = known && looked;
    if (known && better(most.front(), *proof.bound)) proof.bound = most.front();
  }
  if (!known) proof.bound.reset();
  return proof;
}

SearchResult search(const Value& document, const Environment& environment, int threads,
                    const SearchOptions& options, const PointsListener& listener) {
  const std::vector<PointDocument> documents = point_documents(document);
  // A mistake in the goal must show before an hour of simulation.
  const search_detail::Read read = search_detail::read_points(documents, environment, threads);
  SearchResult found{.goal = decode_goal(document, read.devices[read.first])};
  search_detail::check_policies(document, found.goal, read.policies);
  SearchOptions chosen = options;
  for (const std::string& name : search_detail::figures_named(found.goal)) {
    if (name == "memory.smallest_capacity") chosen.simulation.smallest_capacity_of_fitting = true;
  }
  explore({.document = document, .points = documents, .devices = read.devices, .names = read.names},
          found, environment, threads, chosen, listener);
  search_detail::check_figures(document, found);
  search_detail::rank(found);
  return found;
}

}  // namespace tidemark
