// Fronts, budgets and bounds as charts, and their data.
#include "plots/comparison_charts.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "plots/svg.hpp"

namespace tidemark::comparison_charts_test {
namespace {

std::string svg_of(const SvgChart& chart) {
  std::ostringstream out;
  write_svg(out, chart);
  return out.str();
}

TEST_SUITE("unit") {
  TEST_CASE("no two of many series have both colour and mark, or both colour and dash in a round") {
    std::set<std::pair<std::uint32_t, MarkShape>> seen;
    for (std::size_t i = 0; i < kLineInks; ++i) {
      const LineInk ink = line_ink(i);
      CHECK(ink.mark != MarkShape::kNone);
      CHECK(ink.mark != MarkShape::kCross);  // has no inside to be left hollow
      CHECK(seen.emplace(ink.rgb, ink.mark).second);
      // The same colour comes again with another dash, so that lines without marks differ, too.
      if (i >= 8) CHECK(ink.dash != line_ink(i - 8).dash);
    }
    std::vector<BudgetPoint> points;
    for (int p = 0; p < 20; ++p)
      points.push_back({fmt::format("policy {}", p), kGiB, 0.01 * p});
    const SvgChart chart = budget_chart("twenty", points);
    std::set<std::pair<std::uint32_t, MarkShape>> drawn;
    for (const SvgLine& line : chart.lines)
      drawn.emplace(line.rgb, line.mark);
    CHECK(drawn.size() == 20);
  }

  TEST_CASE("a front is a line of steps: what a run reaches, more memory keeps") {
    const std::vector<TradeOff> runs{{.name = "slow", .memory = kGiB, .seconds = 3},
                                     {.name = "fast", .memory = 3 * kGiB, .seconds = 1}};
    const SvgChart chart = pareto_chart("two", runs, Bytes(0));
    REQUIRE(chart.lines.size() == 1);
    CHECK(chart.lines[0].steps);
    // Memory is to the right, time upwards, as on the report's page.
    CHECK(chart.x.unit == AxisUnit::kBytes);
    CHECK(chart.y.unit == AxisUnit::kSeconds);
    CHECK(svg_of(chart).find("H") != std::string::npos);
  }

  TEST_CASE("a bound is a bar with its overhead, also with one budget") {
    const std::vector<BudgetPoint> one{{"optimal", kGiB, 0.09}, {"no policy", kGiB, {}}};
    const SvgChart chart = budget_chart("one", one, {"fixed", {{kGiB, 0.0889}}});
    REQUIRE(chart.lines.size() == 3);
    const SvgLine& bar = chart.lines.back();
    CHECK(bar.label == "proven least, class fixed");
    REQUIRE(bar.points.size() == 2);
    CHECK(bar.points[0].x < static_cast<double>(kGiB.count));
    CHECK(bar.points[1].x > static_cast<double>(kGiB.count));
    CHECK(bar.points[0].y == doctest::Approx(0.0889));
    CHECK(svg_of(chart).find(">at least 8.89 %</text>") != std::string::npos);

    // Bars of neighbouring budgets do not touch: 10 GiB apart, at most 4 GiB to each side.
    const std::vector<BudgetPoint> two{{"optimal", 10 * kGiB, 0.2}, {"optimal", 20 * kGiB, 0.1}};
    const SvgChart pair =
        budget_chart("two", two, {"fixed", {{10 * kGiB, 0.15}, {20 * kGiB, 0.05}}});
    REQUIRE(pair.lines.size() == 3);
    CHECK(pair.lines[1].points[1].x < pair.lines[2].points[0].x);
    CHECK(pair.lines[2].label.empty());  // one entry of the legend suffices
  }

  TEST_CASE("columns of the data name their units") {
    const std::vector<TradeOff> runs{{.name = "a", .memory = kGiB, .seconds = 3},
                                     {.name = "b", .memory = kGiB, .seconds = 4}};
    std::ostringstream pareto;
    write_pareto_csv(pareto, runs, "seconds_per_sample");
    CHECK(pareto.str() ==
          "name,memory_bytes,seconds_per_sample,fits,on_front\n"
          "a,1073741824,3,true,true\nb,1073741824,4,true,false\n");
    std::ostringstream budget;
    write_budget_csv(budget, {{"optimal", kGiB, 0.25}}, {"fixed", {{kGiB, 0.2}}});
    CHECK(budget.str() ==
          "policy,budget_bytes,feasible,overhead\n"
          "optimal,1073741824,true,0.25\n\"proven least, class fixed\",1073741824,true,0.2\n");
  }
}

}  // namespace
}  // namespace tidemark::comparison_charts_test
