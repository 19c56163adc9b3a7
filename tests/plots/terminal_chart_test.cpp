#include "plots/terminal_chart.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "graph/core/csv.hpp"
#include "plots/memory_samples.hpp"
#include "plots/table.hpp"
#include "plots/timeline_csv.hpp"

namespace tidemark::terminal_chart_test {
namespace {

// A parameter that stays and an activation that comes and goes within one nanosecond of 1000:
//
//   forward 0..500               backward 500..1000
//   |--------------- parameter, 1 GiB ------------|
//                      ^ activation, 3 GiB, at 400
struct Example {
  TrainingGraph graph;
  ProgramOrder order;
  StepProgram program;
  Scratch scratch;
  MemoryTimeline timeline;

  Example() {
    const StorageId weight = graph.storages.push_back(
        {.bytes = kGiB, .role = Role::kParameter, .initial = true, .name = "w"});
    const StorageId act = graph.storages.push_back(
        {.bytes = 3 * kGiB, .role = Role::kSavedActivation, .name = "x, \"first\""});
    add_operator("forward", Phase::kForward);
    add_operator("loss", Phase::kForward);
    add_operator("backward", Phase::kBackward);
    const AllocationId w =
        program.allocations.push_back({.bytes = kGiB, .storage = weight, .role = Role::kParameter});
    const AllocationId x = program.allocations.push_back(
        {.bytes = 3 * kGiB, .storage = act, .role = Role::kSavedActivation});
    emit(Opcode::kAllocate, w.value, 0, -1, -1);  // 0
    emit(Opcode::kLaunch, 0, 0, 0, 400);          // 1
    emit(Opcode::kAllocate, x.value, 1, -1, -1);  // 2
    emit(Opcode::kLaunch, 1, 1, 400, 500);        // 3
    emit(Opcode::kFree, x.value, 1, -1, -1);      // 4
    emit(Opcode::kLaunch, 2, 2, 500, 1000);       // 5
    add_point(0, 0, w, +1, 1);
    add_point(400, 2, x, +1, 4);
    add_point(400, 4, x, -1, 1);
    timeline.end = Duration(1000);
  }

  void add_operator(const std::string& name, Phase phase) {
    const OperatorId id = graph.operators.push_back({.name = name, .phase = phase});
    order.at.push_back({.op = id});
    program.slot.push_back({.phase = phase, .last_step = true});
  }
  void emit(Opcode opcode, std::uint32_t subject, std::uint32_t position, std::int64_t started,
            std::int64_t finished) {
    program.opcode.push_back(opcode);
    program.stream.push_back(0);
    program.subject.push_back(subject);
    program.position.push_back(Position(position));
    scratch.started.push_back(started);
    scratch.finished.push_back(finished);
  }
  void add_point(std::int64_t time, std::uint32_t instruction, AllocationId block, int sign,
                 std::int64_t gib) {
    timeline.points.push_back({.time = Duration(time),
                               .instruction = instruction,
                               .allocation = block,
                               .sign = sign,
                               .live = Bytes(gib * kGiB.count),
                               .active = Bytes(gib * kGiB.count),
                               .reserved = Bytes(4 * kGiB.count)});
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

TEST_SUITE("unit") {
  TEST_CASE("thinning keeps the largest state of a column, also one that lasts no time") {
    const Example e;
    const auto samples = thin_out(e.program, e.timeline, Duration(0), Duration(1000), 10);
    REQUIRE(samples.size() == 10);
    for (std::size_t c = 0; c < 10; ++c) {
      CHECK(samples[c].live == (c == 4 ? 4 : 1) * kGiB);
    }
    CHECK(samples[4].by_role[static_cast<std::size_t>(Role::kSavedActivation)] == 3 * kGiB);
    CHECK(samples[4].time == Duration(400));
    CHECK(samples[4].instruction == 2);
  }

  TEST_CASE("thinning to any number of columns never loses the peak") {
    const Example e;
    for (std::size_t columns = 1; columns < 40; ++columns) {
      const auto samples = thin_out(e.program, e.timeline, Duration(0), Duration(1000), columns);
      const auto largest =
          std::max_element(samples.begin(), samples.end(),
                           [](const auto& a, const auto& b) { return a.live < b.live; });
      CHECK(largest->live == 4 * kGiB);
    }
  }

  TEST_CASE("a window of time begins with what is live before it") {
    const Example e;
    const auto samples = thin_out(e.program, e.timeline, Duration(600), Duration(1000), 4);
    for (const MemorySample& sample : samples)
      CHECK(sample.live == kGiB);
  }

  TEST_CASE("a column shows the phase that most of its time belongs to") {
    const Example e;
    const auto phases = phases_of(e.program, e.scratch, Duration(0), Duration(1000), 4);
    CHECK(phases ==
          std::vector<Phase>{Phase::kForward, Phase::kForward, Phase::kBackward, Phase::kBackward});
  }

  TEST_CASE("a chart without colour names the peak, the phases, the roles and the capacity") {
    const Example e;
    const std::string chart =
        draw_memory_chart(e.program, e.scratch, e.timeline,
                          {.width = 60, .capacity = 5 * kGiB, .peak_note = "forward, loss"});
    CHECK(chart.find('\x1b') == std::string::npos);
    CHECK(chart.find("peak 4 GiB at 400 ns, forward, loss") != std::string::npos);
    CHECK(chart.find("▼") != std::string::npos);
    CHECK(chart.find(" forward ") != std::string::npos);
    CHECK(chart.find(" backward ") != std::string::npos);
    CHECK(chart.find("░ saved activations 3 GiB") != std::string::npos);
    CHECK(chart.find("╌╌ capacity 5 GiB") != std::string::npos);
    for (const std::string& line : lines_of(chart))
      CHECK(display_width(line) <= 60);
  }

  TEST_CASE("a chart in colour has the same shape") {
    const Example e;
    const ChartOptions plain{.width = 60, .capacity = 80 * kGiB};
    ChartOptions coloured = plain;
    coloured.colour = true;
    const std::string chart = draw_memory_chart(e.program, e.scratch, e.timeline, coloured);
    CHECK(chart.find("\x1b[38;5;") != std::string::npos);
    CHECK(chart.find("lies above this chart") != std::string::npos);
    CHECK(lines_of(chart).size() ==
          lines_of(draw_memory_chart(e.program, e.scratch, e.timeline, plain)).size());
  }

  TEST_CASE("a chart of nothing is empty") {
    const Example e;
    CHECK(draw_memory_chart(e.program, e.scratch, {}, {}).empty());
  }

  TEST_CASE("the timeline as CSV has one row per change, with live bytes by role") {
    const Example e;
    std::ostringstream out;
    write_timeline_csv(out, e.graph, e.order, e.program, e.timeline);
    CHECK(lines_of(out.str()) ==
          std::vector<std::string>{
              "time_ns,step,phase,operator,layer,tensor,event,bytes,live,active,reserved,parameter,"
              "gradient,optimizer_state,buffer,input,saved_activation,activation_gradient,"
              "temporary,gradient_bucket,gathered_parameter,communication,frozen_parameter,"
              "quantised_parameter,adapter,teacher,loader,key_value_cache,workspace",
              // The parameter exists from the start: no operator makes it.
              "0,0,forward,,,w,allocate,1073741824,1073741824,1073741824,4294967296,1073741824,"
              "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0",
              "400,0,forward,loss,,\"x, \"\"first\"\"\",allocate,3221225472,4294967296,4294967296,"
              "4294967296,1073741824,0,0,0,0,3221225472,0,0,0,0,0,0,0,0,0,0,0,0",
              "400,0,forward,loss,,\"x, \"\"first\"\"\",free,3221225472,1073741824,1073741824,"
              "4294967296,1073741824,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"});
  }

  TEST_CASE("gradients that zero_grad drops are no part of forward in the CSV") {
    Example e;
    e.graph.part(PartKind::kZeroGrad).push_back(OperatorId(1U));  // "loss", which frees x
    std::ostringstream out;
    write_timeline_csv(out, e.graph, e.order, e.program, e.timeline);
    const std::vector<std::string> rows = lines_of(out.str());
    REQUIRE(rows.size() == 4);
    CHECK(rows[1].starts_with("0,0,forward,,,w,allocate"));
    CHECK(rows[3].starts_with("400,0,zero_grad,loss,,\"x, \"\"first\"\"\",free"));
  }

  TEST_CASE("fields of a CSV file are quoted where they must be") {
    CHECK(csv_field("plain text") == "plain text");
    CHECK(csv_field("a,b") == "\"a,b\"");
    CHECK(csv_field("say \"x\"") == "\"say \"\"x\"\"\"");
    CHECK(csv_field("two\nlines") == "\"two\nlines\"");
  }
}

}  // namespace
}  // namespace tidemark::terminal_chart_test
