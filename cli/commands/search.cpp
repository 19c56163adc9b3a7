// tidemark search: finds the best point of a scenario's sweep under its goal.
#include "scenarios/studies/search.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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

enum class Unit : std::uint8_t { kNone, kBytes, kSeconds };

// Returns the unit of a figure of the result document or of the device.
Unit unit_of(std::string_view figure) {
  static constexpr std::array<std::string_view, 19> kBytes{"device_used",
                                                           "peak_live",
                                                           "peak_allocated",
                                                           "peak_reserved",
                                                           "capacity",
                                                           "parameters",
                                                           "gradients",
                                                           "optimizer_state",
                                                           "buffers",
                                                           "inputs",
                                                           "saved_activations",
                                                           "smallest_capacity",
                                                           "peak_without_workspace",
                                                           "between_steps",
                                                           "peak",
                                                           "forward",
                                                           "backward",
                                                           "optimizer",
                                                           "memory"};
  static constexpr std::array<std::string_view, 11> kSeconds{"step",
                                                             "forward",
                                                             "backward",
                                                             "optimizer",
                                                             "recompute",
                                                             "host_bound",
                                                             "per_sample",
                                                             "per_token",
                                                             "dequantise",
                                                             "exposed_transfer",
                                                             "exposed_communication"};
  const auto is_one_of = [&](const auto& names) {
    const std::string_view last = figure.substr(figure.rfind('.') + 1);
    return std::find(names.begin(), names.end(), last) != names.end();
  };
  const bool memory = figure.starts_with("memory.") || figure.starts_with("hardware.");
  if (memory && is_one_of(kBytes)) return Unit::kBytes;
  return figure.starts_with("time.") && is_one_of(kSeconds) ? Unit::kSeconds : Unit::kNone;
}

// Returns the unit of an expression, or of a difference of its sides: that of its figures, if it
// has one on each side and only numbers beside them.
Unit unit_of(const Expression& expression) {
  const std::vector<std::string>& names = expression.names();
  const std::string& text = expression.text();
  const bool compares = text.find_first_of("<>") != std::string::npos;
  if (names.empty() || names.size() > (compares ? 2 : 1) || text.find('/') != std::string::npos)
    return Unit::kNone;
  const Unit unit = unit_of(std::string_view(names.front()));
  return unit_of(std::string_view(names.back())) == unit ? unit : Unit::kNone;
}

std::string value_text(const Expression& expression, double value) {
  constexpr double kMost = 1e18;  // what fits into 64 bits with room to spare
  const Unit unit = std::abs(value) < kMost ? unit_of(expression) : Unit::kNone;
  if (unit == Unit::kBytes) return format_bytes(Bytes(static_cast<std::int64_t>(value)));
  // Below a microsecond a duration has too few digits to compare.
  if (unit == Unit::kSeconds && std::abs(value) >= 1e-6 && std::abs(value) < 1e9) {
    return format_duration(
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value)));
  }
  return fmt::format("{:.6g}", value);
}

// Says what a point breaks and by how much, in the order of the goal.
std::string breaches_of(const SearchPoint& point, const Goal& goal) {
  std::string texts;
  for (const Breach& breach : point.breaks) {
    if (!texts.empty()) texts += ", ";
    if (breach.constraint) {
      const std::string& text = goal.subject_to[*breach.constraint].text();
      texts += std::isfinite(breach.by)
                   ? fmt::format("breaks {} by {}", text,
                                 value_text(goal.subject_to[*breach.constraint], breach.by))
                   : fmt::format("has no figure for {}", text);
    } else if (breach.by > 0) {
      texts += fmt::format("does not fit by {}",
                           format_bytes(Bytes(static_cast<std::int64_t>(breach.by))));
    } else {
      texts += "does not fit";
      if (point.result.failure) texts += fmt::format(" ({})", point.result.failure->reason);
    }
  }
  return texts;
}

bool has_objectives(const SearchPoint& point) {
  return std::all_of(point.objectives.begin(), point.objectives.end(),
                     [](double value) { return std::isfinite(value); });
}

// Returns whether a point that is no answer would be one if it did not break anything. It has every
// figure of the goal.
bool would_be_better(const SearchResult& found, const SearchPoint& point) {
  return std::none_of(found.front.begin(), found.front.end(), [&](std::size_t i) {
    const SearchPoint& answer = found.points[i];
    return answer.objectives == point.objectives || answer.dominates(point, found.goal.maximize);
  });
}

// Joins the figures that are to be small or large.
std::string objectives_of(const Goal& goal) {
  std::vector<std::string_view> texts;
  for (const Expression& objective : goal.objectives)
    texts.emplace_back(objective.text());
  return fmt::format("{}", fmt::join(texts, " and "));
}

// A list of points that are no answer: lines for the first of them, and the number of all.
struct LeftOut {
  std::vector<std::string> lines;
  std::size_t count = 0;

  void add(const SearchPoint& point, const Goal& goal, std::size_t most) {
    if (count++ < most)
      lines.push_back(
          fmt::format("    {}: {}\n", setting_of(point.result), breaches_of(point, goal)));
  }
  [[nodiscard]] std::string text() const {
    std::string all = fmt::format("{}", fmt::join(lines, ""));
    if (count > lines.size())
      all += fmt::format("    and {} more, which --json lists\n", count - lines.size());
    return all;
  }
};

// Names the points that would be better and those of which it is not known, at most `most` of each,
// and says what they break.
std::string better_but(const SearchResult& found, std::size_t most) {
  LeftOut better;
  LeftOut unknown;
  std::size_t others = 0;
  for (const SearchPoint& point : found.points) {
    if (point.breaks.empty()) continue;
    if (!has_objectives(point)) {
      unknown.add(point, found.goal, most);
    } else if (would_be_better(found, point)) {
      better.add(point, found.goal, most);
    } else {
      ++others;
    }
  }
  std::string text;
  if (better.count > 0)
    text += fmt::format("  {} would be better:\n{}", better.count, better.text());
  if (unknown.count > 0) {
    text += fmt::format("  {} lack{} a figure of the goal:\n{}", unknown.count,
                        unknown.count == 1 ? "s" : "", unknown.text());
  }
  if (others > 0) text += fmt::format("  {} left out would not be better\n", others);
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
    } else if (point.result.status == PointStatus::kFits && !has_objectives(point)) {
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
                        found.points.size(), objectives_of(found.goal), first_of(without));
  }
  return text;
}

std::string none_will_do(const SearchResult& found, std::size_t fit, std::size_t most) {
  const Goal& goal = found.goal;
  std::string text = fmt::format("  none of them will do: {} of {} fit", fit, found.points.size());
  for (std::size_t c = 0; c < goal.subject_to.size(); ++c) {
    std::size_t hold = 0;
    for (const SearchPoint& point : found.points) {
      const bool built = point.result.status != PointStatus::kError;
      hold += built && std::none_of(point.breaks.begin(), point.breaks.end(),
                                    [&](const Breach& breach) { return breach.constraint == c; })
                  ? 1U
                  : 0U;
    }
    text += fmt::format(", {} keep to {}", hold, goal.subject_to[c].text());
  }
  text += ".\n";
  LeftOut out;
  for (const SearchPoint& point : found.points) {
    if (!point.breaks.empty()) out.add(point, goal, most);
  }
  return text + out.text() + not_compared(found);
}

std::string verdict(const SearchResult& found, std::size_t most, const Console& console) {
  const Goal& goal = found.goal;
  const auto fit = static_cast<std::size_t>(
      std::count_if(found.points.begin(), found.points.end(),
                    [](const auto& point) { return point.result.status == PointStatus::kFits; }));
  std::string text = fmt::format("\n{} {} over {} points, of which {} fit\n",
                                 goal.maximize ? "largest" : "smallest", objectives_of(goal),
                                 found.points.size(), fit);
  if (found.front.empty()) return text + none_will_do(found, fit, most);
  // One objective has one answer: those that are as good come after it in the table.
  const std::size_t answers = goal.objectives.size() == 1 ? 1 : found.front.size();
  if (goal.objectives.size() > 1) {
    text += fmt::format(
        "  {} of them {} on the front, where no other is better in one figure and as "
        "good in the rest:\n",
        answers, answers == 1 ? "is" : "are");
  }
  const std::size_t shown = std::min(most, answers);
  for (std::size_t k = 0; k < shown; ++k) {
    const SearchPoint& best = found.points[found.front[k]];
    std::vector<std::string> values;
    for (std::size_t o = 0; o < best.objectives.size(); ++o)
      values.push_back(value_text(goal.objectives[o], best.objectives[o]));
    text += fmt::format("  {}: {}\n", bold(setting_of(best.result), console.colour),
                        fmt::join(values, ", "));
  }
  if (shown < answers) text += fmt::format("  and {} more; --top shows them\n", answers - shown);
  const std::string others = better_but(found, most) + not_compared(found);
  text += others.empty() ? "  no point that was left out would be better\n" : others;
  return text;
}

// Returns a figure as JSON: null where a point has none.
Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

// Returns one value for one objective, and a list for a list of them.
template <typename Values, typename AsJson>
Json as_given(const Goal& goal, const Values& values, const AsJson& as_json) {
  Json list = Json::array();
  for (const auto& value : values)
    list.push_back(as_json(value));
  if (goal.objectives.size() > 1) return list;
  return list.empty() ? Json(nullptr) : list.front();
}

// Returns what keeps each point from being an answer, one entry for each thing that it breaks.
Json left_out_of(const SearchResult& found) {
  Json list = Json::array();
  for (std::size_t i = 0; i < found.points.size(); ++i) {
    for (const Breach& breach : found.points[i].breaks) {
      list.push_back(
          {{"point", i},
           {"constraint",
            breach.constraint ? found.goal.subject_to[*breach.constraint].text() : "fits"},
           {"by", number_or_null(breach.by)}});
    }
  }
  return list;
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
  for (const SearchPoint& point : found.points)
    objectives.push_back(as_given(found.goal, point.objectives, number_or_null));
  document["search"] = {
      {found.goal.maximize ? "maximize" : "minimize",
       as_given(found.goal, found.goal.objectives,
                [](const Expression& objective) { return Json(objective.text()); })},
      {"subject_to", std::move(constraints)},
      {"best", found.ranking.empty() ? Json(nullptr) : Json(found.ranking.front())},
      {"ranking", found.ranking},
      {"front", found.front},
      {"left_out", left_out_of(found)},
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
  goal: {minimize: [time.per_token, memory.device_used]}   every compromise between them
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
        document, environment, thread_count(threads),
        // The table does not show what would be the smallest device for a step that fits.
        {.smallest_capacity_of_fitting = json, .convergence_limit = kConvergenceLimit},
        {.progress = [&](std::size_t done, std::size_t total) { progress.report(done, total); },
         .finished = {}});
  }
  if (json) {
    print(search_detail::document_of(found));
  } else {
    const std::size_t width = console.terminal ? console.width : 0;
    std::vector<PointResult> best;
    const std::vector<std::size_t>& answers =
        found.goal.objectives.size() > 1 ? found.front : found.ranking;
    for (std::size_t i = 0; i < std::min<std::size_t>(top, answers.size()); ++i)
      best.push_back(found.points[answers[i]].result);
    if (best.empty()) {  // the reasons follow
      for (std::size_t i = 0; i < std::min<std::size_t>(top, found.points.size()); ++i)
        best.push_back(found.points[i].result);
    }
    print(points_table(best, console.colour, width, TableEnd::kNone) +
          wrap_lines(search_detail::verdict(found, top, console), width));
  }
  return found.ranking.empty() ? kExitDoesNotFit : kExitFits;
}

}  // namespace tidemark
