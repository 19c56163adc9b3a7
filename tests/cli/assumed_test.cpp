// `run` of one point names the assumed figures that its result hangs on.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

namespace tidemark::testing::assumed_test {
namespace {

using Json = nlohmann::json;

constexpr const char* kScenario = R"(version: 1
name: small
model: {preset: gpt2, layers: 2}
hardware: a100-sxm-80gb
training: {sequence: 256, micro_batch: 2}
)";

Json point_of(const Workspace& w, const std::string& options) {
  return Json::parse(w.run("run s.yaml --json" + options).out)["points"][0];
}

const Json& figure_of(const Json& point, const std::string& name) {
  static const Json kNone;
  for (const Json& figure : point["assumed"]["figures"])
    if (figure["figure"] == name) return figure;
  return kNone;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a run says how much its step hangs on each assumed figure") {
    const Workspace w;
    w.write("s.yaml", kScenario);
    const Json point = point_of(w, "");
    const Json& dispatch = figure_of(point, "host.dispatch");
    REQUIRE(dispatch.is_object());
    CHECK(dispatch["low"] == "10us");
    CHECK(dispatch["high"] == "50us");
    // A run with that value says the same.
    const double step = point["time"]["step"];
    const double slow = point_of(w, " -s hardware.host.dispatch=50us")["time"]["step"];
    CHECK(slow > 1.01 * step);
    CHECK(dispatch["step"][1].get<double>() == doctest::Approx(slow / step - 1).epsilon(0.001));
    CHECK(point["assumed"]["step"]["more"].get<double>() >= dispatch["step"][1].get<double>());
    // Figures that the step does not use are not named: it copies nothing.
    CHECK(figure_of(point, "links.d2h.latency").is_null());
    CHECK(figure_of(point, "nvme.latency").is_null());
    CHECK(point == point_of(w, ""));
  }

  TEST_CASE("a figure that decides whether the step fits is named") {
    const Workspace w;
    w.write("s.yaml", kScenario);
    const std::int64_t used = point_of(w, "")["memory"]["device_used"];
    // The context of an H100 is taken over from A100, 481 MiB: twice of it does not fit.
    const std::string gpu =
        " -s 'hardware={gpu: h100, hbm: {capacity: " + std::to_string(used + 60'000'000) + "}}'";
    const Json point = point_of(w, gpu);
    const Json& context = figure_of(point, "framework.context");
    REQUIRE(context.is_object());
    CHECK(context["decides_fit"] == true);
    CHECK(context["memory"][1].get<double>() > 0.01);
    const std::string text = w.run("run s.yaml --no-chart" + gpu).out;
    CHECK(text.find("\n  assumed ") != std::string::npos);
    CHECK(text.find("whether it fits") != std::string::npos);
  }

  TEST_CASE("sweeps do not vary assumed figures") {
    const Workspace w;
    w.write("s.yaml", std::string(kScenario) + "sweep: {matrix: {training.micro_batch: [1, 2]}}\n");
    CHECK_FALSE(point_of(w, "").contains("assumed"));
  }
}

}  // namespace tidemark::testing::assumed_test
