#include "cli/text/assumed_report.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "plots/role_style.hpp"

namespace tidemark {
namespace assumed_report_detail {
namespace {

constexpr std::size_t kNamed = 2;  // figures that a line has room for

// Returns "step -8 to +14 %"; empty where it changes by less than is reported.
std::string span_of(std::string_view what, double less, double more) {
  if (std::max(less, more) < kLeastInfluence) return {};
  return fmt::format("{} -{:.0f} to +{:.0f} %", what, 100 * less, 100 * more);
}

// Four digits say more than is known.
double rounded(double share) {
  return std::round(1e4 * share) / 1e4;
}

}  // namespace
}  // namespace assumed_report_detail

std::string assumed_line(const AssumedReport& report, bool colour) {
  if (report.figures.empty()) return {};
  std::vector<std::string> spans{
      assumed_report_detail::span_of("step", report.step_less, report.step_more),
      assumed_report_detail::span_of("memory", report.memory_less, report.memory_more)};
  const bool decides =
      std::any_of(report.figures.begin(), report.figures.end(),
                  [](const AssumedInfluence& influence) { return influence.decides_fit; });
  if (decides) spans.emplace_back("whether it fits");
  std::erase(spans, "");
  std::vector<std::string> names;
  for (const AssumedInfluence& influence : report.figures) {
    if (names.size() == assumed_report_detail::kNamed) break;
    names.push_back(influence.figure.path);
  }
  std::string more;
  if (report.figures.size() > names.size())
    more = fmt::format(" and {} more (--json)", report.figures.size() - names.size());
  return fmt::format("  {}{}: {}{}\n", dim(fmt::format("{:<15}", "assumed"), colour),
                     fmt::join(spans, ", "), fmt::join(names, ", "), more);
}

nlohmann::ordered_json assumed_json(const AssumedReport& report) {
  using assumed_report_detail::rounded;
  nlohmann::ordered_json figures = nlohmann::ordered_json::array();
  for (const AssumedInfluence& influence : report.figures) {
    const AssumedFigure& figure = influence.figure;
    figures.push_back(
        {{"figure", figure.path},
         {"value", figure.value},
         {"low", figure.low},
         {"high", figure.high},
         {"source", figure.source},
         {"step", {rounded(influence.step_at_low), rounded(influence.step_at_high)}},
         {"memory", {rounded(influence.memory_at_low), rounded(influence.memory_at_high)}},
         {"decides_fit", influence.decides_fit}});
  }
  return {
      {"step", {{"less", rounded(report.step_less)}, {"more", rounded(report.step_more)}}},
      {"memory", {{"less", rounded(report.memory_less)}, {"more", rounded(report.memory_more)}}},
      {"figures", std::move(figures)}};
}

}  // namespace tidemark
