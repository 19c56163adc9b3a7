// Pictures leave out invisible points, overlap nowhere, and name the run that they show.
#include "plots/svg.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "plots/comparison_charts.hpp"
#include "plots/memory_figure.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::svg_test {

namespace {

std::string svg_of(const SvgChart& chart) {
  std::ostringstream out;
  write_svg(out, chart);
  return out.str();
}

// Elements open and close in turn and attributes are quoted: what an XML reader would refuse.
void check_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  static const std::regex kTag(R"re(<(/?)([A-Za-z]+)((?:\s+[a-zA-Z:-]+="[^"<]*")*)\s*(/?)>)re");
  std::size_t tags = 0;
  for (auto tag = std::sregex_iterator(svg.begin(), svg.end(), kTag); tag != std::sregex_iterator();
       ++tag) {
    ++tags;
    if ((*tag)[1].length() > 0) {
      REQUIRE_FALSE(open.empty());
      CHECK(open.back() == (*tag)[2].str());
      open.pop_back();
    } else if ((*tag)[4].length() == 0) {
      open.push_back((*tag)[2].str());
    }
  }
  CHECK(open.empty());
  CHECK(tags == static_cast<std::size_t>(std::count(svg.begin(), svg.end(), '<')));
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf\"") == std::string::npos);
}

struct TextBox {
  std::string words;
  double left = 0, top = 0, right = 0, bottom = 0;
};

// Returns the texts with a width as of Helvetica's wider letters: 0.6 of the font's size each.
std::vector<TextBox> texts_of(const std::string& svg) {
  static const std::regex kText(
      R"re(<text x="([\d.-]+)" y="([\d.-]+)" font-size="([\d.]+)"([^>]*)>([^<]*)</text>)re");
  std::vector<TextBox> boxes;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), kText); at != std::sregex_iterator();
       ++at) {
    const double x = std::stod((*at)[1]);
    const double y = std::stod((*at)[2]);
    const double font = std::stod((*at)[3]);
    const double length = 0.6 * font * static_cast<double>((*at)[5].length());
    const std::string rest = (*at)[4];
    const double left = rest.find("\"end\"") != std::string::npos      ? x - length
                        : rest.find("\"middle\"") != std::string::npos ? x - length / 2
                                                                       : x;
    boxes.push_back({(*at)[5], left, y - 0.75 * font, left + length, y + 0.2 * font});
  }
  return boxes;
}

void check_no_overlap(const std::string& svg) {
  const std::vector<TextBox> boxes = texts_of(svg);
  for (std::size_t a = 0; a < boxes.size(); ++a) {
    for (std::size_t b = a + 1; b < boxes.size(); ++b) {
      const bool apart = boxes[a].right <= boxes[b].left || boxes[b].right <= boxes[a].left ||
                         boxes[a].bottom <= boxes[b].top || boxes[b].bottom <= boxes[a].top;
      CAPTURE(boxes[a].words);
      CAPTURE(boxes[b].words);
      CHECK(apart);
    }
  }
}

// No text leaves the picture.
void check_inside(const std::string& svg) {
  static const std::regex kSize(R"re(<svg [^>]*width="(\d+)" height="(\d+)")re");
  std::smatch size;
  REQUIRE(std::regex_search(svg, size, kSize));
  for (const TextBox& box : texts_of(svg)) {
    CAPTURE(box.words);
    CHECK(box.left >= 0);
    CHECK(box.right <= std::stod(size[1]));
    CHECK(box.bottom <= std::stod(size[2]));
  }
}

struct Run {
  Scenario scenario;
  TrainedModel model;
  PointDetail detail;
  PointResult result;
  explicit Run(const std::string& more)
      : scenario(decode(
            "{version: 1, model: {preset: gpt, layers: 3, width: 256, heads: 4, vocab: 4096, "
            "sequence: 256}, hardware: h100-sxm-80gb, training: {micro_batch: 4, sequence: 256}" +
            more + "}")),
        model(build_training(scenario)),
        result(simulate(scenario, model, {}, &detail)) {}
  [[nodiscard]] MemoryFigure figure(std::size_t columns) const {
    return memory_figure(detail.compiled.program, detail.scratch, detail.timeline,
                         {.title = "a <step> & \"more\"",
                          .capacity = result.capacity,
                          .context = result.context,
                          .begin = detail.timeline.last_step_begin,
                          .end = detail.timeline.end,
                          .columns = columns});
  }
};

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("ticks are round, inside the range and in a unit that reads well") {
    const AxisTicks memory = round_ticks(0, 85e9, AxisUnit::kBytes, 5);  // 79.2 GiB
    CHECK(memory.unit == "GiB");
    CHECK(memory.labels == std::vector<std::string>{"0", "20", "40", "60"});
    const AxisTicks time = round_ticks(0, 0.0641, AxisUnit::kSeconds, 8);
    CHECK(time.unit == "ms");
    CHECK(time.labels == std::vector<std::string>{"0", "10", "20", "30", "40", "50", "60"});
    CHECK(round_ticks(0, 0.3, AxisUnit::kPercent, 4).labels ==
          std::vector<std::string>{"0", "10", "20", "30"});
    CHECK(round_ticks(1, 1, AxisUnit::kNumber, 4).at.empty());
    CHECK(round_ticks(0, NAN, AxisUnit::kNumber, 4).at.empty());
    std::mt19937 random(7);
    for (int i = 0; i < 500; ++i) {
      const double begin =
          std::ldexp(static_cast<double>(random() % 1000), static_cast<int>(random() % 30));
      const double end = begin + std::ldexp(static_cast<double>(1 + random() % 1000),
                                            static_cast<int>(random() % 30));
      const std::size_t most = 2 + random() % 9;
      for (const AxisUnit unit : {AxisUnit::kBytes, AxisUnit::kSeconds, AxisUnit::kNumber}) {
        const AxisTicks ticks = round_ticks(begin, end, unit, most);
        CHECK(ticks.at.size() <= most);
        CHECK(ticks.at.size() == ticks.labels.size());
        for (const double at : ticks.at) {
          CHECK(at >= begin - 1e-6 * (end - begin));
          CHECK(at <= end + 1e-6 * (end - begin));
        }
      }
    }
  }

  TEST_CASE("a thinned line has at most two points per pixel and keeps its highest") {
    std::mt19937 random(3);
    for (int round = 0; round < 50; ++round) {
      std::vector<SvgPoint> points;
      double x = 0;
      for (int i = 0; i < 2000; ++i) {
        points.push_back({x, static_cast<double>(random() % 1000)});
        x += static_cast<double>(random() % 3);
      }
      const double end = points.back().x;
      const auto higher = [](SvgPoint a, SvgPoint b) { return a.y < b.y; };
      for (const bool steps : {false, true}) {
        const std::vector<SvgPoint> thin = thin_line(points, steps, 0, end, 100);
        CHECK(thin.size() <= (steps ? 100U : 200U) + 2);
        CHECK(std::max_element(thin.begin(), thin.end(), higher)->y ==
              std::max_element(points.begin(), points.end(), higher)->y);
        CHECK(std::is_sorted(thin.begin(), thin.end(),
                             [](SvgPoint a, SvgPoint b) { return a.x < b.x; }));
      }
    }
  }

  TEST_CASE("charts of policies are well formed, without overlap, and show what fails") {
    std::vector<TradeOff> runs;
    for (int i = 0; i < 12; ++i) {  // close together
      runs.push_back({.name = fmt::format("policy <number> {}", i),
                      .memory = Bytes((60 + i % 3) * kGiB.count),
                      .seconds = 0.5 + 0.01 * i,
                      .fits = i != 7});
    }
    const std::string pareto = svg_of(pareto_chart("policies", runs, 61 * kGiB));
    check_well_formed(pareto);
    check_no_overlap(pareto);
    CHECK(pareto.find("does not fit") != std::string::npos);

    // On one spot, runs share a label; a line to a label crosses no other text.
    std::vector<TradeOff> crowd;
    for (int i = 0; i < 40; ++i) {
      crowd.push_back({.name = fmt::format("policy number {}", i),
                       .memory = Bytes((60 + i % 4) * kGiB.count),
                       .seconds = 0.5 + 0.001 * (i / 20) + 0.02 * (i % 5)});
    }
    const std::string crowded = svg_of(pareto_chart("crowd", crowd, Bytes(0)));
    check_no_overlap(crowded);
    CHECK(crowded.find(" more</text>") != std::string::npos);
    CHECK(crowded.find("all names: ") != std::string::npos);
    const std::vector<TextBox> texts = texts_of(crowded);
    static const std::regex kLeader(
        R"re(d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)" fill="none" stroke="#555555")re");
    CHECK(std::regex_search(crowded, kLeader));
    for (auto at = std::sregex_iterator(crowded.begin(), crowded.end(), kLeader);
         at != std::sregex_iterator(); ++at) {
      const double x0 = std::stod((*at)[1]);
      const double y0 = std::stod((*at)[2]);
      const double x1 = std::stod((*at)[3]);
      const double y1 = std::stod((*at)[4]);
      for (int i = 1; i < 20; ++i) {
        const double x = x0 + (x1 - x0) * i / 20;
        const double y = y0 + (y1 - y0) * i / 20;
        for (const TextBox& text : texts) {
          CAPTURE(text.words);
          CHECK_FALSE((x > text.left && x < text.right && y > text.top && y < text.bottom));
        }
      }
    }

    std::vector<BudgetPoint> points;
    for (const char* policy : {"optimal", "chen_sqrt", "checkpoint_every"}) {
      for (std::int64_t budget = 1; budget <= 6; ++budget) {
        const bool feasible = budget > 2 || policy == std::string("optimal");
        points.push_back(
            {policy, budget * kGiB,
             feasible ? std::optional<double>(0.4 / static_cast<double>(budget)) : std::nullopt});
      }
    }
    const SvgChart chart = budget_chart("budgets", points);
    CHECK(chart.marks.size() == 4);  // two policies at two budgets
    for (const SvgMark& mark : chart.marks) {
      CHECK(mark.hollow);
      CHECK(mark.at.y > chart.y.ticks_until.value());
    }
    const std::string budgets = svg_of(chart);
    check_well_formed(budgets);
    check_no_overlap(budgets);
    std::ostringstream csv;
    write_budget_csv(csv, points);
    CHECK(csv.str().find("chen_sqrt,1073741824,false,\n") != std::string::npos);
    CHECK(csv.str().find("optimal,1073741824,true,0.4\n") != std::string::npos);
    // Nothing at all, and a single point, are charts too.
    check_well_formed(svg_of(budget_chart("none", {})));
    check_well_formed(svg_of(pareto_chart("none", {}, Bytes(0))));
    check_well_formed(svg_of(pareto_chart("one", {runs.front()}, Bytes(0))));
  }
}

TEST_SUITE("unit") {
  TEST_CASE("runs over each other say what they have in common, and their table what is drawn") {
    std::vector<NamedFigure> runs;
    for (const char* policy : {"no policy", "eviction"}) {
      MemoryFigure figure{.options = {.subtitle = fmt::format("gpt2; a100; {}", policy),
                                      .context = Bytes(100),
                                      .end = Duration(1000)}};
      figure.samples = {{.live = Bytes(50), .reserved = Bytes(70)}};
      runs.push_back({policy, std::move(figure)});
    }
    CHECK(common_setting(runs) == "gpt2; a100");
    CHECK(common_setting({}).empty());
    const SvgChart chart = overlaid_memory_chart("two", runs);
    CHECK(chart.subtitle == "gpt2; a100");
    CHECK(chart.lines[0].points.front().y == 150);
    std::ostringstream csv;
    write_overlaid_memory_csv(csv, runs);
    CHECK(csv.str() ==
          "run,begin_ns,time_ns,live_bytes,in_use_bytes,device_bytes\nno policy,0,0,50,150,170\n"
          "eviction,0,0,50,150,170\n");
    CHECK(chart.marks.empty());
    // Each of many runs has a letter at its peak: styles of lines repeat, and grey is grey.
    for (int i = 0; i < 4; ++i)
      runs.push_back({fmt::format("run {}", i), runs.front().figure});
    const SvgChart many = overlaid_memory_chart("six", runs);
    REQUIRE(many.marks.size() == 6);
    CHECK(many.lines[5].label.starts_with("F  run 3: "));
    const std::string svg = svg_of(many);
    CHECK(svg.find(">A, B, C, D, E, F</text>") != std::string::npos);  // all on one spot
    check_no_overlap(svg);
  }
}

TEST_SUITE("golden") {
  TEST_CASE("a timeline's picture shows the peak to the byte, two points per pixel, no overlap") {
    for (const std::string more : {"", ", policies: [checkpoint_every: {period: 1}]",
                                   ", policies: [offload_activations: {}]"}) {
      CAPTURE(more);
      const Run run(more);
      for (const std::size_t columns : {200UL, 600UL}) {
        const MemoryFigure figure = run.figure(columns);
        Bytes peak;
        for (const MemorySample& sample : figure.samples) {
          peak = std::max(peak, sample.live);
          CHECK(sum_of(sample.by_role) == sample.live);
        }
        CHECK(peak == run.result.run.live.bytes);
        const std::string svg = svg_of(memory_chart(figure));
        check_well_formed(svg);
        check_no_overlap(svg);
        check_inside(svg);
        CHECK(svg.find("a &lt;step&gt; &amp; &quot;more&quot;") != std::string::npos);
        CHECK(svg.find(">peak ") != std::string::npos);
        // Each H and each V is one point; areas are two edges.
        static const std::regex kPath(R"re( d="(M[^"]*)")re");
        for (auto at = std::sregex_iterator(svg.begin(), svg.end(), kPath);
             at != std::sregex_iterator(); ++at) {
          const std::string path = (*at)[1];
          const auto points = std::count(path.begin(), path.end(), 'V');
          CHECK(points <= static_cast<std::ptrdiff_t>(2 * columns));
        }
        std::ostringstream csv;
        write_memory_figure_csv(csv, figure);
        const std::string rows = csv.str();
        CHECK(static_cast<std::size_t>(std::count(rows.begin(), rows.end(), '\n')) == columns + 1);
        CHECK(rows.find(fmt::format(",{},", peak.count)) != std::string::npos);
      }
    }
  }

  TEST_CASE("runs over each other share their axes") {
    const Run plain("");
    const Run checkpointed(", policies: [checkpoint_every: {period: 1}]");
    const SvgChart chart = overlaid_memory_chart(
        "both", {{"plain", plain.figure(300)}, {"checkpointed", checkpointed.figure(300)}});
    CHECK(chart.lines.size() == 2);
    CHECK(chart.x.end * 1e9 ==
          doctest::Approx(static_cast<double>(
              (checkpointed.detail.timeline.end - checkpointed.detail.timeline.last_step_begin)
                  .count())));
    check_well_formed(svg_of(chart));
    check_no_overlap(svg_of(chart));
  }
}

}  // namespace tidemark::svg_test
