// Marks in pictures of memory over time besides what is live.
#include "plots/memory_figure.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "plots/svg.hpp"

namespace tidemark::memory_figure_test {
namespace {

// A run of two columns on a device of 1000 bytes, 100 of them the context.
NamedFigure run_of(const std::string& name, int live, int reserved) {
  MemoryFigure figure{.options = {.title = name,
                                  .capacity = Bytes(1000),
                                  .context = Bytes(100),
                                  .end = Duration(1000),
                                  .columns = 2}};
  figure.samples = {{.live = Bytes(live / 2), .reserved = Bytes(reserved)},
                    {.time = Duration(500), .live = Bytes(live), .reserved = Bytes(reserved)}};
  figure.phases = {Phase::kForward, Phase::kBackward};
  return {name, std::move(figure)};
}

bool has_note(const SvgChart& chart, const std::string& words) {
  return std::any_of(chart.notes.begin(), chart.notes.end(),
                     [&](const std::string& note) { return note.find(words) != note.npos; });
}

TEST_SUITE("unit") {
  TEST_CASE("runs over each other show what is reserved where that decides whether they fit") {
    // 100 + 500 in use and 100 + 700 reserved, both below 1000: what is live tells enough.
    const std::vector<NamedFigure> fit{run_of("a", 500, 700), run_of("b", 400, 700)};
    CHECK_FALSE(reserved_decides(fit));
    CHECK(overlaid_memory_chart("", fit).lines.size() == 2);
    // 100 + 950 reserved exceeds the device, though 100 + 600 are in use.
    const std::vector<NamedFigure> held{run_of("a", 600, 950), run_of("b", 400, 700)};
    CHECK(reserved_decides(held));
    const SvgChart chart = overlaid_memory_chart("", held);
    REQUIRE(chart.lines.size() == 4);
    CHECK(chart.lines[0].points.back().y == 700);
    CHECK(chart.lines[1].points.back().y == 1050);
    CHECK(chart.lines[1].rgb == chart.lines[0].rgb);
    CHECK(chart.lines[1].width < chart.lines[0].width);
    CHECK(chart.lines[1].label.empty());
    CHECK(chart.lines[0].label.find("reserved " + format_bytes(Bytes(1050))) != std::string::npos);
    CHECK(chart.y.end > 1050);
    CHECK(has_note(chart, "thin lines: reserved"));
    // What is live exceeds the device already: it decides.
    CHECK_FALSE(reserved_decides({run_of("a", 950, 990)}));
  }

  TEST_CASE("a name of the last phase stays inside the frame") {
    for (const double share : {0.02, 0.2}) {
      SvgChart chart{.title = "phases"};
      chart.x = {.title = "time", .unit = AxisUnit::kSeconds, .end = 1};
      chart.y = {.title = "memory", .unit = AxisUnit::kBytes, .end = 1};
      chart.bands = {{0, 1 - share, "backward", "bwd"}, {1 - share, 1, "optimizer", "opt"}};
      const Drawing drawing = draw(chart);
      double end = 0;
      for (const auto& item : drawing.items) {
        const auto* text = std::get_if<DrawnText>(&item);
        if (text == nullptr || !text->words.starts_with("opt")) continue;
        const double length = 0.62 * text->font * static_cast<double>(text->words.size());
        end = text->anchor == TextAnchor::kEnd      ? text->x
              : text->anchor == TextAnchor::kMiddle ? text->x + length / 2
                                                    : text->x + length;
      }
      CAPTURE(share);
      CHECK(end > 0);
      CHECK(end <= drawing.clip.right);
    }
  }

  TEST_CASE("a picture says how it is reproduced") {
    NamedFigure run = run_of("a", 500, 700);
    run.figure.options.reproduce = "reproduce (tidemark 1): tidemark run <a>.yaml";
    std::ostringstream svg;
    write_svg(svg, memory_chart(run.figure));
    CHECK(svg.str().find("<desc>reproduce (tidemark 1): tidemark run &lt;a&gt;.yaml</desc>") !=
          std::string::npos);
    CHECK(svg.str().find(">reproduce (tidemark 1): tidemark run &lt;a&gt;.yaml</text>") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace tidemark::memory_figure_test
