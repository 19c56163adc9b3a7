// tidemark search: finds the best point of a scenario's sweep under its goal.
#include "scenarios/studies/search.hpp"

#include <cmath>
#include <span>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/command.hpp"
#include "cli/output/reports.hpp"
#include "cli/text/override_words.hpp"
#include "cli/text/points_table.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/results/result_document.hpp"

namespace tidemark {
namespace search_detail {
namespace {

using Json = nlohmann::ordered_json;

std::string setting_of(const PointResult& point) {
  const std::string changes = changes_in_words(point, {.whole_keys = true, .with_name = true});
  return changes.empty() ? point.name : changes;
}

// Says why points with a better objective are not the answer.
std::string better_but(const SearchResult& found, std::size_t best) {
  const double answer = found.points[best].objective;
  std::size_t do_not_fit = 0;
  std::vector<std::size_t> breaks(found.goal.subject_to.size());
  for (const SearchPoint& point : found.points) {
    const bool better = found.goal.maximize ? point.objective > answer : point.objective < answer;
    if (point.feasible || !better || point.result.status == PointStatus::kError) continue;
    if (point.breaks.empty()) ++do_not_fit;
    for (const std::size_t c : point.breaks)
      ++breaks[c];
  }
  std::string text;
  if (do_not_fit > 0) text += fmt::format("  {} would be better and do not fit\n", do_not_fit);
  for (std::size_t c = 0; c < breaks.size(); ++c) {
    if (breaks[c] > 0) {
      text += fmt::format("  {} would be better and break {}\n", breaks[c],
                          found.goal.subject_to[c].text());
    }
  }
  return text;
}

// Joins the first few of some names.
std::string first_of(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 5;
  const std::size_t shown = std::min(names.size(), kNamed);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i)
    text += (i == 0 ? "" : "; ") + names[i];
  if (shown < names.size()) text += fmt::format("; and {} more", names.size() - shown);
  return text;
}

// Names the points that could not be compared: those that cannot be built, and those that have no
// such figure as the goal's.
std::string not_compared(const SearchResult& found) {
  std::vector<std::string> faulty;
  std::vector<std::string> without;
  for (const SearchPoint& point : found.points) {
    const std::string name = setting_of(point.result);
    if (point.result.status == PointStatus::kError) {
      faulty.push_back(fmt::format("{} ({})", name, point.result.error));
    } else if (point.result.status == PointStatus::kFits && !std::isfinite(point.objective)) {
      without.push_back(name);
    }
  }
  std::string text;
  if (!faulty.empty()) {
    text += fmt::format("  {} of {} cannot be simulated: {}\n", faulty.size(), found.points.size(),
                        first_of(faulty));
  }
  if (!without.empty()) {
    text += fmt::format("  {} of {} have no {} and are not compared: {}\n", without.size(),
                        found.points.size(), found.goal.objective.text(), first_of(without));
  }
  return text;
}

std::string verdict(const SearchResult& found, const Console& console) {
  const Goal& goal = found.goal;
  const auto fit = std::count_if(found.points.begin(), found.points.end(), [](const auto& point) {
    return point.result.status == PointStatus::kFits;
  });
  std::string text = fmt::format("\n{} {} over {} points, of which {} fit\n",
                                 goal.maximize ? "largest" : "smallest", goal.objective.text(),
                                 found.points.size(), fit);
  if (found.ranking.empty()) {
    text += fmt::format("  none of them will do: {} of {} fit", fit, found.points.size());
    for (std::size_t c = 0; c < goal.subject_to.size(); ++c) {
      std::size_t hold = 0;
      for (const SearchPoint& point : found.points) {
        const bool built = point.result.status != PointStatus::kError;
        hold += built && std::count(point.breaks.begin(), point.breaks.end(), c) == 0 ? 1U : 0U;
      }
      text += fmt::format(", {} keep to {}", hold, goal.subject_to[c].text());
    }
    return text + ".\n" + not_compared(found);
  }
  const SearchPoint& best = found.points[found.ranking.front()];
  text +=
      fmt::format("  {}: {:.6g}\n", bold(setting_of(best.result), console.colour), best.objective);
  const std::string others = better_but(found, found.ranking.front()) + not_compared(found);
  text += others.empty() ? "  no point that was left out would be better\n" : others;
  return text;
}

std::string document_of(const SearchResult& found) {
  std::vector<PointResult> points;
  for (const SearchPoint& point : found.points)
    points.push_back(point.result);
  Json document = result_document(points);
  Json constraints = Json::array();
  for (const Expression& expression : found.goal.subject_to)
    constraints.push_back(expression.text());
  Json objectives = Json::array();
  for (const SearchPoint& point : found.points) {
    const bool counts =
        std::isfinite(point.objective) && point.result.status != PointStatus::kError;
    objectives.push_back(counts ? Json(point.objective) : Json(nullptr));
  }
  document["search"] = {
      {found.goal.maximize ? "maximize" : "minimize", found.goal.objective.text()},
      {"subject_to", std::move(constraints)},
      {"best", found.ranking.empty() ? Json(nullptr) : Json(found.ranking.front())},
      {"ranking", found.ranking},
      {"objective", std::move(objectives)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace
}  // namespace search_detail

void SearchCommand::attach(CLI::App& parent) {
  app = parent.add_subcommand(kName,
                              "the fastest point of a scenario's sweep that keeps to its goal");
  app->footer(R"(A goal names figures of the result document, of policies and of the device:
  goal: {minimize: time.step, subject_to: ["memory.device_used <= 0.95 * hardware.hbm.capacity"]}
  goal: {maximize: throughput.tokens_per_second, subject_to: ["memory.host.peak < 64GiB"]}
Without a goal the most samples per second win. What does not fit is never the answer.

Examples:
  tidemark search scenario.yaml
  tidemark search scenario.yaml -s training.sequence=4096 --top 20

Exit codes: 0 a point keeps to the goal; 1 none does; 2 bad input; 3 internal error.)");
  input.add_options(*app, false);
  app->add_option("--top", top, "how many of the best to show")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app->add_flag("--json", json, "print the result document, every point, and nothing else");
  app->add_option("-j,--threads", threads, "points that run at the same time (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
}

int SearchCommand::execute(const Console& console) const {
  const Environment environment = input.environment(console);
  const Value document = input.load().front();
  SearchResult found;
  {
    Progress progress(console, "points");
    found = search(
        document, environment, thread_count(threads), {.convergence_limit = kConvergenceLimit},
        {.progress = [&](std::size_t done, std::size_t total) { progress.report(done, total); },
         .finished = {}});
  }
  if (json) {
    print(search_detail::document_of(found));
  } else {
    const std::size_t width = console.terminal ? console.width : 0;
    std::vector<PointResult> best;
    for (std::size_t i = 0; i < std::min<std::size_t>(top, found.ranking.size()); ++i)
      best.push_back(found.points[found.ranking[i]].result);
    if (best.empty()) {  // the reasons follow
      for (std::size_t i = 0; i < std::min<std::size_t>(top, found.points.size()); ++i)
        best.push_back(found.points[i].result);
    }
    print(points_table(best, console.colour, width, TableEnd::kNone) +
          wrap_lines(search_detail::verdict(found, console), width));
  }
  return found.ranking.empty() ? kExitDoesNotFit : kExitFits;
}

}  // namespace tidemark
