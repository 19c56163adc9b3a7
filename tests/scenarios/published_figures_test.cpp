// Figures that sources publish for the points of scenarios, and how far ours are off.
#include "scenarios/measured/published_figures.hpp"

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "scenarios/measured/measured_files.hpp"
#include "tests/cli/command_runner.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::published_figures_test {
namespace {

using testing::contains;
using testing::Outcome;
using testing::Workspace;

std::string scenario(const std::string& published) {
  return fmt::format(
      "model: {{preset: gpt, layers: 1, width: 32, heads: 2, vocab: 64}}\n"
      "hardware: h100-sxm-80gb\n"
      "sweep: {{matrix: {{training.micro_batch: [1, 2, 4]}}}}\n"
      "published: {}\n",
      published);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("published figures need a source, a figure, and a value of its unit for each point") {
    const std::string start = "[{source: a table, figure: memory.peak_live, ";
    const std::pair<std::string, const char*> cases[] = {
        {"[{figure: memory.peak_live, value: 1GiB}]", "published[0].source"},
        {"[{source: a, value: 1GiB}]", "published[0].figure"},
        {"[{source: a, figure: memory.peak_life, value: 1GiB}]", "did you mean 'memory.peak_live'"},
        {start + "value: 1GiB, values: [1GiB]}]", "one of value and values"},
        {start + "values: 1GiB}]", "expected a list with one value for each point"},
        {start + "values: [1GiB, 7, 1GiB]}]", "published[0].values[1]: expected bytes with a unit"},
        {start + "values: [1GiB, 7s, 1GiB]}]", "expected bytes with a unit"},
        {start + "values: [1GiB, 0GiB, 1GiB]}]", "expected more than 0"},
        {start + "values: [1GiB, [1], 1GiB]}]", "found a list"},
        {start + "values: [1GiB, 2GiB]}]", "has 2 values, and the scenario 3 points"},
        {start + "values: [1GiB, 2GiB, ~], unit: GiB}]", "unknown key"},
        {"[{source: a, figure: time.step, values: [1s, 2, 3s]}]", "expected a time"},
        {"[{source: a, figure: throughput.samples_per_second, values: [1s, 2, 3]}]",
         "expected a number without a unit"},
    };
    const Workspace workspace;
    for (const auto& [published, problem] : cases) {
      CAPTURE(published);
      workspace.write("s.yaml", scenario(published));
      for (const char* command : {"check s.yaml", "validate s.yaml"}) {
        const Outcome outcome = workspace.run(command);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 2);
        CHECK(contains(outcome.err, "s.yaml:4:"));
        CHECK(contains(outcome.err, problem));
      }
    }
  }

  TEST_CASE("a row for each published value of a point, with the error of ours") {
    const Workspace workspace;
    workspace.write("plain.yaml", scenario("[]"));
    const Outcome run = workspace.run("run plain.yaml --json");
    REQUIRE(run.code == 0);
    std::vector<std::int64_t> live;
    std::vector<double> step;
    const auto simulated = nlohmann::json::parse(run.out);
    for (const auto& point : simulated["points"]) {
      live.push_back(point["memory"]["peak_live"]);
      step.push_back(point["time"]["step"]);
    }
    const std::string published = fmt::format(
        "[a text, {{source: A, figure: memory.peak_live + 0B, values: [{}B, ~, {}B]}}, "
        "{{source: B, figure: time.step, values: [~, ~, {:.9f}s]}}]",
        live[0] * 2, live[2], step[2] / 1.25);
    workspace.write("s.yaml", scenario(published));
    const Outcome validated = workspace.run("validate s.yaml --json -o out");
    CAPTURE(validated.err);
    REQUIRE(validated.code == 0);
    const auto document = nlohmann::json::parse(validated.out);
    REQUIRE(document["groups"].size() == 2);
    CHECK(document["groups"][0]["group"] == "s");
    CHECK(document["groups"][0]["metric"] == "memory.peak_live + 0B");
    CHECK(document["groups"][0]["n"] == 2);
    CHECK(document["groups"][0]["mape"] == doctest::Approx(0.25));
    CHECK(document["groups"][1]["bias"] == doctest::Approx(0.25).epsilon(1e-4));
    CHECK(document["overall"][0]["group"] == "memory on one GPU");
    CHECK(document["overall"][1]["group"] == "time on one GPU");
    CHECK(contains(workspace.read("out/rows.csv"), "point 3 training.micro_batch=4"));
    // The published figures stand below the table of a run, too.
    const Outcome shown = workspace.run("run s.yaml");
    CHECK(contains(shown.out, "a text"));
    CHECK(contains(shown.out, "B: time.step -, -, "));
    // A folder's scenarios without figures are passed over; one that is named must have some.
    workspace.write("gpu.yaml", "like: a100-sxm-80gb\n");
    const auto folder = nlohmann::json::parse(
        workspace.run("validate both --json", "mkdir both; cp *.yaml both;").out);
    CHECK(folder["groups"] == document["groups"]);
    CHECK(folder["other_rows"]["files of YAML without published figures"] == 2);
    const Outcome piped = workspace.run("validate /dev/stdin --json", "cat s.yaml |");
    CHECK(nlohmann::json::parse(piped.out)["overall"] == document["overall"]);
    CHECK(
        contains(workspace.run("validate s.yaml --gpu h100-sxm-80gb").err, "--gpu: the scenario"));
    // Figures of a base say nothing of a scenario that extends it.
    workspace.write("child.yaml", "extends: s.yaml\nmodel: {layers: 2}\n");
    CHECK(contains(workspace.run("validate child.yaml").err, "no figures are published here"));
    CHECK(contains(workspace.run("validate plain.yaml").err, "no figures are published here"));
  }
}

TEST_SUITE("paper") {
  TEST_CASE("published memory is met within 3 % and speed within 8 % at the median") {
    Validation validation;
    const std::string papers = test::source_path("scenarios/papers");
    // 530 B and 1 T take as long as all others together.
    const bool every = test::runs_long_tests();
    for (const std::string& file : measured_files(std::span(&papers, 1), true)) {
      const bool largest = file.ends_with("_530b.yaml") || file.ends_with("_1t.yaml");
      if (every || !largest) validate_published(file, false, environment(), 2, validation);
    }
    validation.other.erase("files of YAML without published figures");
    CHECK(validation.other.empty());
    std::map<std::string, ErrorSummary> overall;
    for (const ValidatedGroup& group : overall_groups_of(validation.rows))
      overall[group.group] = group.errors;
    CHECK(overall["memory on one GPU"].n >= 26);
    CHECK(overall["memory on one GPU"].median < 0.03);
    CHECK(overall["rate on one GPU"].n >= 16);
    CHECK(overall["rate on one GPU"].median < 0.08);
    CHECK(overall["memory on several GPUs"].n >= (every ? 32 : 28));
    CHECK(overall["memory on several GPUs"].median < 0.03);
    CHECK(overall["time on several GPUs"].n >= 4);
    CHECK(overall["time on several GPUs"].median < 0.08);
    // Formulas leave out the embedding alone: no row is further off.
    std::size_t rows = 0;
    std::size_t iterations = 0;
    for (const ValidatedRow& row : validation.rows) {
      CAPTURE(row.text);
      if (row.group.starts_with("iterations of 22 B") && row.metric == "time.step") {
        CHECK(std::abs(row.predicted / row.measured - 1) < 0.06);
        ++iterations;
      }
      const bool of_stage = row.metric.starts_with("ranks.0.memory.");
      if (!of_stage && !row.group.starts_with("states of 7.5 B")) continue;
      CHECK(row.predicted / row.measured == doctest::Approx(1).epsilon(0.03));
      ++rows;
    }
    CHECK(rows == (every ? 26 : 22));
    CHECK(iterations == 4);
  }

  TEST_CASE("figures of one stage of a pipeline have their units, and others lack them") {
    const Workspace workspace;
    const auto rows = [&](const std::string& policies, const std::string& figure) {
      workspace.write("s.yaml",
                      "model: {preset: gpt, layers: 4, width: 64, heads: 4, vocab: 64, sequence: "
                      "32}\nhardware: {gpu: h100-sxm-80gb, count: 2}\ntraining: {accumulate: 2}\n"
                      "policies: [" +
                          policies + "]\npublished: [{source: S, figure: " + figure +
                          ", value: 1GiB}]\n");
      const auto document = nlohmann::json::parse(workspace.run("validate s.yaml --json").out);
      return document["overall"].size();
    };
    CHECK(rows("pipeline: {size: 2}", "ranks.1.memory.peak_live") == 1);
    CHECK(rows("pipeline: {size: 2}", "ranks.2.memory.peak_live") == 0);
    const auto refusal_of = [&](const std::string& figure) {
      workspace.write("t.yaml",
                      "model: {preset: gpt2}\nhardware: h100-sxm-80gb\npublished: [{source: S, "
                      "figure: " +
                          figure + ", value: 1GiB}]\n");
      return workspace.run("validate t.yaml").err;
    };
    CHECK(contains(refusal_of("ranks.x.memory.peak_live"), "names no stage"));
    CHECK(contains(refusal_of("ranks.0"), "names no stage"));
    CHECK(contains(refusal_of("ranks.0.memory.peak_liv"), "did you mean 'memory.peak_live'?"));
    CHECK(contains(refusal_of("ranks.0.throughput.samples_per_step"), "a stage has no figure"));
    CHECK(rows("data_parallel", "ranks.0.memory.peak_live") == 0);
  }
}

}  // namespace tidemark::published_figures_test
