#include "cli/text/search_words.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/text/override_words.hpp"
#include "plots/role_style.hpp"
#include "plots/table.hpp"
#include "scenarios/read/figure_unit.hpp"

namespace tidemark {
namespace search_words_detail {
namespace {

// Returns the setting of a PointResult or an ExcludedPoint.
template <class Point>
std::string setting_of(const Point& point) {
  const std::string changes =
      changes_in_words(point.overrides, {.whole_keys = true, .with_name = true});
  return changes.empty() ? point.name : changes;
}

// Returns the points that were simulated, those that could not be built left out.
std::size_t simulated(const SearchResult& found) {
  return static_cast<std::size_t>(std::count_if(
      found.points.begin(), found.points.end(),
      [](const SearchPoint& point) { return point.result.status != PointStatus::kError; }));
}

std::string value_text(const Expression& expression, double value) {
  constexpr double kMost = 1e18;  // what fits into 64 bits with room to spare
  const FigureUnit unit = std::abs(value) < kMost ? expression.unit() : FigureUnit::kNone;
  if (unit == FigureUnit::kBytes) return format_bytes(Bytes(static_cast<std::int64_t>(value)));
  // Below a microsecond a duration has too few digits to compare.
  if (unit == FigureUnit::kSeconds && std::abs(value) >= 1e-6 && std::abs(value) < 1e9) {
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
      if (!std::isfinite(breach.by)) {
        texts += fmt::format("has no figure for {}", text);
      } else if (breach.by == 0) {
        texts += fmt::format("breaks {}, as both sides are equal", text);
      } else {
        texts += fmt::format("breaks {} by {}", text,
                             value_text(goal.subject_to[*breach.constraint], breach.by));
      }
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
    return answer.objectives == point.objectives ||
           dominates(answer.objectives, point.objectives, found.goal.maximize);
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
    if (count++ >= most) return;
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
    text += fmt::format("  {} of {} cannot be simulated: {}\n", faulty.size(), found.space(),
                        first_of(faulty));
  }
  if (!without.empty()) {
    text += fmt::format("  {} of {} have no {} and are not compared: {}\n", without.size(),
                        found.points.size(), objectives_of(found.goal), first_of(without));
  }
  return text;
}

// Says why points were not simulated, and names the nearest of those that break something.
std::string not_simulated(const SearchResult& found) {
  std::map<std::optional<std::size_t>, std::vector<const ExcludedPoint*>> breaking;
  std::size_t no_better = 0;
  std::size_t by_smaller = 0;
  for (const ExcludedPoint& point : found.excluded) {
    by_smaller += point.by_smaller ? 1U : 0U;
    if (point.breaks) {
      breaking[point.breaks->constraint].push_back(&point);
    } else {
      ++no_better;
    }
  }
  std::string text;
  if (no_better > 0) {
    text += fmt::format(
        "  {} cannot be better, by the kernels and live bytes alone (not simulated)\n", no_better);
  }
  for (auto& [constraint, points] : breaking) {
    const auto nearest =
        std::min_element(points.begin(), points.end(), [](const auto* a, const auto* b) {
          return std::isfinite(a->breaks->by) &&
                 !(std::isfinite(b->breaks->by) && b->breaks->by <= a->breaks->by);
        });
    text += fmt::format(
        "  {} {} (not simulated); the nearest is {}", points.size(),
        constraint ? "cannot keep to " + found.goal.subject_to[*constraint].text() : "cannot fit",
        setting_of(**nearest));
    const double by = (*nearest)->breaks->by;
    if (std::isfinite(by)) {
      text += fmt::format(", by at least {}",
                          constraint ? value_text(found.goal.subject_to[*constraint], by)
                                     : format_bytes(Bytes(static_cast<std::int64_t>(by))));
    }
    text += '\n';
    if (!constraint && by_smaller > 0) {
      const std::size_t assumed = proof_of(found).assumed;
      text += fmt::format(
          "    {} of them are taken not to, as they do not with a smaller micro-batch or "
          "sequence{}\n",
          by_smaller,
          assumed > 0 ? fmt::format("; {} might be better, so that the answer is proven but for "
                                    "these (--every-point simulates them)",
                                    assumed == by_smaller ? "any" : fmt::to_string(assumed))
                      : ", and could not be better");
    }
  }
  return text;
}

std::string none_will_do(const SearchResult& found, std::size_t fit, std::size_t most) {
  const Goal& goal = found.goal;
  if (simulated(found) == 0) return not_compared(found) + not_simulated(found);
  std::string text = fmt::format("  none of {} will do: {} of {} fit",
                                 found.excluded.empty() ? "them" : "those that were simulated", fit,
                                 simulated(found));
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
  return text + out.text() + not_compared(found) + not_simulated(found);
}

}  // namespace
}  // namespace search_words_detail

std::string verdict_of(const SearchResult& found, std::size_t most, bool colour) {
  const Goal& goal = found.goal;
  const auto fit = static_cast<std::size_t>(
      std::count_if(found.points.begin(), found.points.end(),
                    [](const auto& point) { return point.result.status == PointStatus::kFits; }));
  std::string text = fmt::format("\n{} {} over {} points, ", goal.maximize ? "largest" : "smallest",
                                 search_words_detail::objectives_of(goal), found.space());
  if (found.excluded.empty()) {
    text += fmt::format("of which {} fit\n", fit);
  } else {
    text +=
        fmt::format("{} simulated, of which {} fit\n", search_words_detail::simulated(found), fit);
  }
  if (found.front.empty()) return text + search_words_detail::none_will_do(found, fit, most);
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
      values.push_back(search_words_detail::value_text(goal.objectives[o], best.objectives[o]));
    text += fmt::format("  {}: {}\n", bold(search_words_detail::setting_of(best.result), colour),
                        fmt::join(values, ", "));
  }
  if (shown < answers) text += fmt::format("  and {} more; --top shows them\n", answers - shown);
  const std::string others = search_words_detail::better_but(found, most) +
                             search_words_detail::not_compared(found) +
                             search_words_detail::not_simulated(found);
  text += others.empty() ? "  no point that was left out would be better\n" : others;
  return text;
}

}  // namespace tidemark
