#include "plots/agreement_chart.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace tidemark {
namespace agreement_chart_detail {
namespace {

constexpr double kSide = 420;   // pixels of the plotting area
constexpr double kSpots = 140;  // points that a side tells apart
constexpr double kOff = 0.2;    // error of the dashed lines
constexpr std::uint32_t kGrey = 0x777777;

SvgLine diagonal(double begin, double end, double factor, Dash dash) {
  const double up = std::log10(factor);
  return {.label = {},
          .points = {{begin, begin + up}, {end, end + up}},
          .rgb = kGrey,
          .dash = dash,
          .width = 1};
}

}  // namespace
}  // namespace agreement_chart_detail

SvgChart agreement_chart(const std::vector<AgreementGroup>& groups, const std::string& unit) {
  double least = 0;
  double most = 0;
  bool first = true;
  for (const AgreementGroup& group : groups) {
    for (const SvgPoint& point : group.points) {
      for (const double value : {std::log10(point.x), std::log10(point.y)}) {
        least = first ? value : std::min(least, value);
        most = first ? value : std::max(most, value);
        first = false;
      }
    }
  }
  const double begin = std::floor(least * 2) / 2;
  const double end = std::max(begin + 0.5, std::ceil(most * 2) / 2);
  SvgChart chart;
  chart.title = "Predicted against measured";
  chart.subtitle = fmt::format("dashed: {:.0f} % off", agreement_chart_detail::kOff * 100);
  chart.x = {.title = fmt::format("measured, log10 {}", unit), .begin = begin, .end = end};
  chart.y = {.title = fmt::format("predicted, log10 {}", unit), .begin = begin, .end = end};
  chart.plot_width = agreement_chart_detail::kSide;
  chart.plot_height = agreement_chart_detail::kSide;
  chart.lines.push_back(agreement_chart_detail::diagonal(begin, end, 1, Dash::kSolid));
  for (const double factor :
       {1 + agreement_chart_detail::kOff, 1 / (1 + agreement_chart_detail::kOff)})
    chart.lines.push_back(agreement_chart_detail::diagonal(begin, end, factor, Dash::kLong));
  const double spot = (end - begin) / agreement_chart_detail::kSpots;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const LineInk ink = line_ink(g % kLineInks);
    std::set<std::pair<long, long>> taken;
    bool named = false;
    for (const SvgPoint& point : groups[g].points) {
      const SvgPoint at{std::log10(point.x), std::log10(point.y)};
      if (!taken.emplace(std::lround(at.x / spot), std::lround(at.y / spot)).second) continue;
      SvgMark mark;
      mark.at = at;
      mark.shape = ink.mark == MarkShape::kNone ? MarkShape::kCircle : ink.mark;
      mark.hollow = true;
      mark.rgb = ink.rgb;
      if (!named) mark.legend = groups[g].label;
      named = true;
      chart.marks.push_back(std::move(mark));
    }
  }
  return chart;
}

}  // namespace tidemark
