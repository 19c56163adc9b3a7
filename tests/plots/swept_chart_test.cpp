// The picture of a figure over a swept key has axes that show all of it.
#include "plots/swept_chart.hpp"

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "plots/svg.hpp"

namespace tidemark::swept_chart_test {
namespace {

std::vector<SweptValue> values_at(const std::vector<double>& keys) {
  std::vector<SweptValue> values;
  values.reserve(keys.size());
  for (const double key : keys)
    values.push_back({.line = "all", .x = key, .y = 1e9 + key});
  return values;
}

// Returns the numbers below the plot, from left to right: centred texts between the axis and its
// title, all of one font size.
std::vector<double> ticks_below(const SvgChart& chart) {
  std::ostringstream out;
  write_svg(out, chart);
  const std::string svg = out.str();
  static const std::regex kNumber(
      R"re(<text x="[\d.-]+" y="[\d.-]+" font-size="[\d.]+"[^>]*"middle"[^>]*>(-?[\d.]+)</text>)re");
  std::vector<double> ticks;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), kNumber);
       at != std::sregex_iterator(); ++at)
    ticks.push_back(std::stod((*at)[1]));
  return ticks;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("ticks of a swept key reach its last value where the first is small") {
    const std::vector<std::vector<double>> sweeps{
        {1, 4, 7, 10, 40}, {1, 2, 4, 8, 16, 32, 64}, {1, 40}, {100, 200, 4000}, {0, 0.5, 1}};
    for (const std::vector<double>& keys : sweeps) {
      CAPTURE(keys.back());
      const SvgChart chart = swept_chart({.x = "key", .y = "figure"}, values_at(keys));
      CHECK((keys.front() > 0 ? chart.x.begin >= 0 : chart.x.begin < 0));
      const std::vector<double> ticks = ticks_below(chart);
      REQUIRE(ticks.size() >= 4);
      CHECK(ticks.front() >= 0);
      CHECK(ticks.back() > 0.8 * keys.back());
      CHECK(ticks.back() <= chart.x.end);
    }
  }

  TEST_CASE("words on an axis stand side by side, long ones in lines") {
    const std::vector<std::string> words{"no policy", "checkpoint_every(period 1)",
                                         "offload_activations(prefetch 2), chen_sqrt", "keep_all"};
    const SvgChart chart =
        swept_chart({.x = "policies", .y = "figure", .x_words = words}, values_at({0, 1, 2, 3}));
    std::ostringstream out;
    write_svg(out, chart);
    const std::string svg = out.str();
    static const std::regex kText(
        R"re(<text x="([\d.-]+)" y="([\d.-]+)" font-size="12"[^>]*"middle"[^>]*>([^<]*)</text>)re");
    double until = 0;
    double row = 0;
    std::string all;
    for (auto at = std::sregex_iterator(svg.begin(), svg.end(), kText);
         at != std::sregex_iterator(); ++at) {
      const double x = std::stod((*at)[1]);
      const double y = std::stod((*at)[2]);
      const double half = 0.31 * 12 * static_cast<double>((*at)[3].length());
      all += (*at)[3].str() + '|';
      if (y == row) CHECK(x - half > until);
      if (row == 0) row = y;
      if (y == row) until = x + half;
    }
    CHECK(all ==
          "no policy|checkpoint_every(period 1)|offload_activations(prefetch|2), chen_sqrt|"
          "keep_all|policies|");
  }

  TEST_CASE("ticks of an axis that begins below 0 may end at 0") {
    SvgChart chart;
    chart.x = {.begin = -4, .end = 2, .ticks_until = 0};
    CHECK(ticks_below(chart).back() == 0);
    chart.x.ticks_until.reset();
    CHECK(ticks_below(chart).back() == 2);
  }
}

}  // namespace tidemark::swept_chart_test
