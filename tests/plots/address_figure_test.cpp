// The picture of addresses: allocations lie inside segments and over no other allocation that
// is there at the same time.
#include "plots/address_figure.hpp"

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "plots/address_offsets.hpp"
#include "plots/svg.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::address_figure_test {
namespace {

struct Run {
  Scenario scenario;
  PointDetail detail;
  PointResult result;
  MemoryFigure figure;
  AddressFigure addresses;

  explicit Run(const std::string& more)
      : scenario(decode("{version: 1, model: {preset: gpt, layers: 3, width: 256, heads: 4, vocab: "
                        "4096, sequence: 256}, hardware: h100-sxm-80gb, training: {micro_batch: 4, "
                        "sequence: 256}" +
                        more + "}")) {
    detail.model = std::make_shared<const TrainedModel>(build_training(scenario));
    result = simulate(scenario, *detail.model, {}, &detail);
    figure = memory_figure(detail.compiled.program, detail.scratch, detail.timeline,
                           {.title = "addresses",
                            .begin = detail.timeline.last_step_begin,
                            .end = detail.timeline.end,
                            .reproduce = "reproduce: this"});
    addresses =
        address_figure(detail.model->training, detail.compiled.program, detail.timeline,
                       address_layout(scenario, detail.compiled, detail.timeline, true), figure);
  }
};

bool overlap(const AddressSpan& a, const AddressSpan& b) {
  return a.begin < b.end && b.begin < a.end && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

TEST_SUITE("unit") {
  TEST_CASE("offsets leave out what never had memory") {
    // [100, 200) and [150, 250) are one range of 150; [1000, 1100) comes right behind it.
    const AddressOffsets offsets(
        {{Bytes(100), Bytes(100)}, {Bytes(150), Bytes(100)}, {Bytes(1000), Bytes(100)}});
    CHECK(offsets.of(Bytes(100)) == Bytes(0));
    CHECK(offsets.of(Bytes(249)) == Bytes(149));
    CHECK(offsets.of(Bytes(250)) == Bytes(-1));
    CHECK(offsets.of(Bytes(1000)) == Bytes(150));
    CHECK(offsets.of(Bytes(99)) == Bytes(-1));
    CHECK(offsets.end() == Bytes(250));
    CHECK(AddressOffsets({}).end() == Bytes(0));
  }
}

TEST_SUITE("golden") {
  TEST_CASE("allocations lie in segments and over no other, and what is free at the peak is told") {
    for (const std::string more : {"", ", policies: [checkpoint_every: {period: 1}]"}) {
      CAPTURE(more);
      const Run run(more);
      const AddressFigure& shown = run.addresses;
      REQUIRE(shown.allocations.size() > 50);
      REQUIRE_FALSE(shown.segments.empty());
      int outside = 0;
      int clashes = 0;
      for (std::size_t i = 0; i < shown.allocations.size(); ++i) {
        const AddressSpan& span = shown.allocations[i];
        CHECK(span.begin < span.end);
        CHECK(span.end <= run.detail.timeline.end - run.detail.timeline.last_step_begin);
        const bool inside = std::any_of(
            shown.segments.begin(), shown.segments.end(), [&](const AddressSpan& segment) {
              return span.offset >= segment.offset &&
                     span.offset + span.bytes <= segment.offset + segment.bytes;
            });
        outside += inside ? 0 : 1;
        for (std::size_t k = 0; k < i; ++k)
          clashes += overlap(span, shown.allocations[k]) ? 1 : 0;
      }
      CHECK(outside == 0);
      CHECK(clashes == 0);
      CHECK(shown.reserved_at_peak <= run.result.run.reserved.bytes);
      CHECK(shown.free_at_peak >= Bytes(0));
      CHECK(shown.free_at_peak < shown.reserved_at_peak);
    }
  }

  TEST_CASE("the picture has phases, an ink for each role and its data") {
    const Run run("");
    const SvgChart chart = address_chart(run.addresses, run.figure);
    REQUIRE(chart.bands.size() == 3);
    CHECK(chart.bands[1].label == "backward");
    CHECK(chart.rectangles.size() > 20);
    CHECK(chart.rectangles.size() <=
          run.addresses.allocations.size() + run.addresses.segments.size());
    for (const SvgRectangle& shown : chart.rectangles) {
      CHECK(shown.area < chart.areas.size());
      CHECK(shown.high <= chart.y.end);
    }
    CHECK(chart.notes.front().starts_with("at the peak "));
    std::ostringstream svg;
    write_svg(svg, chart);
    CHECK(svg.str().find(">saved activations</text>") != std::string::npos);
    CHECK(svg.str().find("reproduce: this") != std::string::npos);
    std::ostringstream csv;
    write_address_figure_csv(csv, run.addresses);
    const std::string rows = csv.str();
    CHECK(rows.starts_with("tensor,role,begin_ns,end_ns,offset_bytes,size_bytes\n,segment,0,"));
    CHECK(static_cast<std::size_t>(std::count(rows.begin(), rows.end(), '\n')) ==
          1 + run.addresses.allocations.size() + run.addresses.segments.size());
  }

  TEST_CASE("an allocator that only counts bytes has no picture of addresses") {
    CHECK(Run(", allocator: ideal").addresses.allocations.empty());
  }
}

}  // namespace
}  // namespace tidemark::address_figure_test
