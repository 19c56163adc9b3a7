#include "plots/agreement_chart.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
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

// The decades of both axes, from a multiple of one half to another.
struct Range {
  double begin = 0;
  double end = 0;
};
Range range_of(const std::vector<AgreementGroup>& groups) {
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (const AgreementGroup& group : groups) {
    for (const SvgPoint& point : group.points) {
      const auto [low, high] = std::minmax({std::log10(point.x), std::log10(point.y)});
      least = std::min(least, low);
      most = std::max(most, high);
    }
  }
  if (least > most) return {.begin = 0, .end = 0.5};
  const double begin = std::floor(least * 2) / 2;
  return {.begin = begin, .end = std::max(begin + 0.5, std::ceil(most * 2) / 2)};
}

}  // namespace
}  // namespace agreement_chart_detail

SvgChart agreement_chart(const std::vector<AgreementGroup>& groups, const std::string& unit) {
  const auto [begin, end] = agreement_chart_detail::range_of(groups);
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
