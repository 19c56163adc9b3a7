#include "plots/comparison_charts.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "graph/core/csv.hpp"

namespace tidemark {
namespace comparison_charts_detail {
namespace {

constexpr std::uint32_t kFrontInk = 0x0b3c5d;
constexpr std::uint32_t kBehindInk = 0x777777;
constexpr std::uint32_t kFailedInk = 0xb3261e;
constexpr std::uint32_t kLeastInk = 0x000000;

// Fits an axis to a range with some margin; not empty even if all values are the same.
void fit_axis(SvgAxis& axis, double low, double high) {
  const double span = high - low;
  const double air = span > 0 ? 0.12 * span : std::max(high * 0.25, 1e-9);
  axis.begin = std::max(0.0, low - air);
  axis.end = high + air;
}

std::string least_label(const ProvenLeast& least) {
  return fmt::format("proven least, class {}", least.schedule_class);
}

// Draws a bar at each bound, as wide as its budget's part of the axis, with its overhead beside it.
void add_least(SvgChart& chart, const ProvenLeast& least) {
  const double whole = chart.x.end - chart.x.begin;
  double half = whole * 0.06;
  for (std::size_t i = 1; i < least.by_budget.size(); ++i) {
    const Bytes apart = least.by_budget[i].first - least.by_budget[i - 1].first;
    half = std::min(half, static_cast<double>(apart.count) * 0.4);
  }
  bool explained = false;
  for (const auto& [budget, overhead] : least.by_budget) {
    const auto at = static_cast<double>(budget.count);
    chart.lines.push_back({.label = explained ? "" : least_label(least),
                           .points = {{at - half, overhead}, {at + half, overhead}},
                           .rgb = kLeastInk,
                           .width = 3});
    explained = true;
    chart.marks.push_back({.at = {at + half, overhead},
                           .label = fmt::format("at least {:.3g} %", overhead * 100),
                           .shape = MarkShape::kNone});
  }
}

}  // namespace
}  // namespace comparison_charts_detail

SvgChart pareto_chart(const std::string& title, const std::vector<TradeOff>& runs, Bytes capacity,
                      const std::string& time_title) {
  SvgChart chart{.title = title};
  chart.x = {.title = "device memory", .unit = AxisUnit::kBytes};
  chart.y = {.title = time_title, .unit = AxisUnit::kSeconds};
  const std::vector<std::size_t> front = pareto_front(runs);
  std::vector<char> on_front(runs.size(), 0);
  for (const std::size_t i : front)
    on_front[i] = 1;

  std::optional<std::array<double, 4>> range;  // range of memory and of time
  std::size_t untimed = 0;
  std::array<bool, 3> explained{};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const TradeOff& run = runs[i];
    if (run.seconds <= 0) {
      ++untimed;
      continue;
    }
    const double memory = static_cast<double>(run.memory.count);
    if (!range) range = {memory, memory, run.seconds, run.seconds};
    auto& [least, most, fastest, slowest] = *range;
    least = std::min(least, memory);
    most = std::max(most, memory);
    fastest = std::min(fastest, run.seconds);
    slowest = std::max(slowest, run.seconds);
    const std::size_t kind = !run.fits ? 2 : on_front[i] != 0 ? 0 : 1;
    constexpr std::array<const char*, 3> kKinds{"best for its memory", "beaten by another",
                                                "does not fit"};
    chart.marks.push_back({.at = {memory, run.seconds},
                           .label = run.name,
                           .legend = explained[kind] ? "" : kKinds[kind],
                           .shape = run.fits ? MarkShape::kCircle : MarkShape::kCross,
                           .hollow = kind == 1,
                           .rgb = std::array{comparison_charts_detail::kFrontInk,
                                             comparison_charts_detail::kBehindInk,
                                             comparison_charts_detail::kFailedInk}[kind]});
    explained[kind] = true;
  }
  if (range) {
    comparison_charts_detail::fit_axis(chart.x, (*range)[0], (*range)[1]);
    comparison_charts_detail::fit_axis(chart.y, (*range)[2], (*range)[3]);
  }
  // Between two runs of the front, nothing less than the first one's time is known.
  SvgLine line{.steps = true, .rgb = comparison_charts_detail::kFrontInk, .dash = Dash::kShort};
  for (const std::size_t i : front)
    line.points.push_back({static_cast<double>(runs[i].memory.count), runs[i].seconds});
  if (line.points.size() > 1) chart.lines.push_back(std::move(line));
  const double limit = static_cast<double>(capacity.count);
  if (capacity.count > 0 && limit > chart.x.begin && limit < chart.x.end) {
    chart.lines.push_back({.label = fmt::format("capacity {}", format_bytes(capacity)),
                           .points = {{limit, chart.y.begin}, {limit, chart.y.end}},
                           .rgb = comparison_charts_detail::kFailedInk,
                           .dash = Dash::kLong});
  }
  if (untimed > 0) chart.notes.push_back(fmt::format("{} without a time left out", untimed));
  return chart;
}

void write_pareto_csv(std::ostream& out, const std::vector<TradeOff>& runs,
                      const std::string& time_column) {
  const std::vector<std::size_t> front = pareto_front(runs);
  out << fmt::format("name,memory_bytes,{},fits,on_front\n", time_column);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const TradeOff& run = runs[i];
    const bool best = std::find(front.begin(), front.end(), i) != front.end();
    out << fmt::format("{},{},{},{},{}\n", csv_field(run.name), run.memory.count,
                       run.seconds > 0 ? fmt::format("{:.9g}", run.seconds) : "", run.fits, best);
  }
}

SvgChart budget_chart(const std::string& title, const std::vector<BudgetPoint>& points,
                      const ProvenLeast& least) {
  SvgChart chart{.title = title};
  chart.x = {.title = "memory budget", .unit = AxisUnit::kBytes};
  chart.y = {.title = "overhead in time", .unit = AxisUnit::kPercent};
  if (points.empty()) return chart;
  std::vector<std::string> policies;
  double highest = 0.01;
  double lowest = 0;
  double first = static_cast<double>(points.front().budget.count);
  double last = first;
  for (const BudgetPoint& point : points) {
    if (std::find(policies.begin(), policies.end(), point.policy) == policies.end()) {
      policies.push_back(point.policy);
    }
    highest = std::max(highest, point.overhead.value_or(0));
    lowest = std::min(lowest, point.overhead.value_or(0));
    first = std::min(first, static_cast<double>(point.budget.count));
    last = std::max(last, static_cast<double>(point.budget.count));
  }
  for (const auto& [budget, overhead] : least.by_budget)
    highest = std::max(highest, overhead);
  comparison_charts_detail::fit_axis(chart.x, first, last);
  const bool some_fail = std::any_of(points.begin(), points.end(),
                                     [](const BudgetPoint& p) { return !p.overhead.has_value(); });
  const double top = highest * 1.1;
  const double row = (highest - lowest) * 0.055;
  chart.y.begin = lowest < 0 ? lowest * 1.1 : 0;
  chart.y.ticks_until = top;
  chart.y.end = some_fail ? top + row * (static_cast<double>(policies.size()) + 2) : top;
  bool explained = false;
  for (std::size_t p = 0; p < policies.size(); ++p) {
    const LineInk ink = line_ink(p);
    SvgLine line{.label = policies[p], .rgb = ink.rgb, .dash = ink.dash, .mark = ink.mark};
    for (const BudgetPoint& point : points) {
      if (point.policy != policies[p]) continue;
      const double budget = static_cast<double>(point.budget.count);
      if (point.overhead) {
        line.points.push_back({budget, *point.overhead});
        continue;
      }
      chart.marks.push_back({.at = {budget, top + row * (static_cast<double>(p) + 1)},
                             .legend = explained ? "" : "infeasible at this budget",
                             .shape = ink.mark,
                             .hollow = true,
                             .rgb = ink.rgb});
      explained = true;
    }
    std::stable_sort(line.points.begin(), line.points.end(),
                     [](const SvgPoint& a, const SvgPoint& b) { return a.x < b.x; });
    chart.lines.push_back(std::move(line));
  }
  comparison_charts_detail::add_least(chart, least);
  if (some_fail) {
    chart.guides.push_back({.y = top,
                            .label = "infeasible",
                            .rgb = comparison_charts_detail::kBehindInk,
                            .dash = Dash::kDotted});
  }
  return chart;
}

void write_budget_csv(std::ostream& out, const std::vector<BudgetPoint>& points,
                      const ProvenLeast& least) {
  out << "policy,budget_bytes,feasible,overhead\n";
  for (const BudgetPoint& point : points) {
    out << fmt::format("{},{},{},{}\n", csv_field(point.policy), point.budget.count,
                       point.overhead.has_value(),
                       point.overhead ? fmt::format("{:.9g}", *point.overhead) : "");
  }
  for (const auto& [budget, overhead] : least.by_budget) {
    out << fmt::format("{},{},true,{:.9g}\n",
                       csv_field(comparison_charts_detail::least_label(least)), budget.count,
                       overhead);
  }
}

}  // namespace tidemark
