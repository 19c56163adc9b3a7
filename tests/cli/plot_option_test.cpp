// --plot: a figure over a swept key.
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/cli/command_runner.hpp"

namespace tidemark::testing::plot_option_test {
namespace {

constexpr const char* kSweep =
    "{model: {preset: gpt2, layers: 2}, hardware: v100-sxm-16gb, training: {micro_batch: 4}, "
    "sweep: {matrix: {training.sequence: [128, 256, 512], hardware: [v100-sxm-16gb, "
    "a100-sxm-40gb], policies: [[], [checkpoint_every: {period: 1}]]}}}";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a figure is drawn over a swept key, with its numbers beside it") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    const Outcome outcome = workspace.run(
        "run s.yaml -o out --json --plot x=training.sequence,y=memory.device_used --plot "
        "x=training.sequence,y='1e3 / throughput.tokens_per_second'");
    REQUIRE(outcome.code == 0);
    const auto points = nlohmann::json::parse(outcome.out).at("points");
    std::string expected = "line,training.sequence,memory.device_used,fits\n";
    for (const auto& point : points) {
      const bool plain = point.at("overrides").at("policies").empty();
      expected += fmt::format("\"{}, {}\",{},{},true\n",
                              point.at("overrides").at("hardware").get<std::string>(),
                              plain ? "no policy" : "checkpoint_every(period 1)",
                              point.at("overrides").at("training.sequence").get<int>(),
                              point.at("memory").at("device_used").get<std::int64_t>());
    }
    CHECK(workspace.read("out/plot.svg.csv") == expected);
    const std::string svg = workspace.read("out/plot.svg");
    CHECK(contains(svg, "memory.device_used"));
    CHECK(contains(svg, "--plot"));  // how to make it again
    CHECK(workspace.exists("out/plot.pdf"));
    CHECK(contains(workspace.read("out/plot-2.svg.csv"),
                   "line,training.sequence,1e3 / throughput.tokens_per_second,fits\n"));
  }

  TEST_CASE("fit draws the largest value of each point, or a figure of its step") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "{model: {preset: gpt2, layers: 2}, hardware: v100-sxm-16gb, sweep: {matrix: "
                    "{hardware: [v100-sxm-16gb, {gpu: v100-sxm-16gb, hbm: {capacity: 100MiB}}], "
                    "policies: [[], [checkpoint_every: {period: 1}]]}}}");
    const std::string fit = "fit s.yaml --maximize training.sequence --multiple-of 512 ";
    const Outcome outcome = workspace.run(
        fit + "--json -o out --plot x=hardware,by=policies --plot x=hardware,y=time.step");
    REQUIRE(outcome.code == 0);
    CHECK(workspace.read("out/results.json") == outcome.out);
    const auto fits = nlohmann::json::parse(outcome.out).at("fits");
    REQUIRE(fits.size() == 4);
    const std::string drawn = workspace.read("out/plot.svg.csv");
    CHECK(drawn.starts_with("line,hardware,training.sequence,fits\n"));
    for (const auto& [line, i] : {std::pair("no policy", 0U), {"checkpoint_every(period 1)", 1U}}) {
      const int largest = fits[i].at("largest").get<int>();
      CHECK(contains(drawn, fmt::format("\n{},v100-sxm-16gb,{},true\n", line, largest)));
    }
    // Nothing fits in 100 MiB, so nothing is drawn there.
    CHECK(fits[2].at("largest").is_null());
    CHECK(contains(drawn, ",,false\n"));
    CHECK(contains(workspace.read("out/plot.svg"),
                   "fit s.yaml --maximize training.sequence --multiple-of 512 --plot"));
    CHECK(contains(workspace.read("out/plot-2.svg.csv"), "hardware,time.step,fits\n"));
    const auto refused = [&](const std::string& words, const std::string& part) {
      const Outcome wrong = workspace.run(fit + words);
      CHECK(wrong.code == 2);
      CHECK(contains(wrong.err, part));
    };
    refused("--plot x=hardware", "give -o DIR, too");
    refused("-o no --plot x=policy", "no sweep changes 'policy'");
    refused("-o no --plot x=hardware,y=time.stp", "did you mean");
    refused("-s sweep=null -o no --plot x=hardware", "no sweep changes");
    CHECK_FALSE(workspace.exists("no"));
  }

  TEST_CASE("a sweep draws one line for each value of another key, and crosses what fails") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "{model: {preset: gpt2, layers: 2}, hardware: v100-sxm-16gb, sweep: {matrix: "
                    "{training.micro_batch: {from: 8, to: 64, times: 2}, hardware: "
                    "[v100-sxm-16gb, v100-sxm-32gb]}}}");
    REQUIRE(workspace
                .run("sweep s.yaml -o out --plot "
                     "x=training.micro_batch,y=memory.device_used,by=hardware --plot "
                     "x=training.micro_batch,y=cost.joules,by=hardware")
                .code == 0);
    // A step that does not fit has no cost.
    CHECK(contains(workspace.read("out/plot-2.svg.csv"), ",,false\n"));
    CHECK_FALSE(contains(workspace.read("out/plot-2.svg.csv"), ",0,"));
    const std::string csv = workspace.read("out/plot.svg.csv");
    CHECK(contains(csv, "v100-sxm-16gb,8,"));
    CHECK(contains(csv, ",false\n"));
    CHECK(contains(workspace.read("out/plot.svg"), "does not fit"));
  }

  TEST_CASE("a line for each value of a key has the best of the further keys, and says so") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    const Outcome outcome = workspace.run(
        "run s.yaml -o out --json --plot x=training.sequence,y=memory.device_used,by=hardware "
        "--plot x=training.sequence,y=throughput.tokens_per_second,by=hardware");
    REQUIRE(outcome.code == 0);
    std::string least = "line,training.sequence,memory.device_used,fits\n";
    std::string most = "line,training.sequence,throughput.tokens_per_second,fits\n";
    const auto points = nlohmann::json::parse(outcome.out).at("points");
    REQUIRE(points.size() == 12);
    for (std::size_t i = 0; i < points.size(); i += 2) {  // the policies are last in the matrix
      const auto& changes = points.at(i).at("overrides");
      const auto row = [&](double figure) {
        return fmt::format("{},{},{:.12g},true\n", changes.at("hardware").get<std::string>(),
                           changes.at("training.sequence").get<int>(), figure);
      };
      const auto of = [&](const char* group, const char* figure, std::size_t k) {
        return points.at(k).at(group).at(figure).get<double>();
      };
      least += row(std::min(of("memory", "device_used", i), of("memory", "device_used", i + 1)));
      most += row(std::max(of("throughput", "tokens_per_second", i),
                           of("throughput", "tokens_per_second", i + 1)));
    }
    CHECK(workspace.read("out/plot.svg.csv") == least);
    CHECK(workspace.read("out/plot-2.svg.csv") == most);
    CHECK(contains(workspace.read("out/plot.svg"), ">each: the least over policies<"));
    CHECK(contains(workspace.read("out/plot-2.svg"), ">each: the most over policies<"));
  }

  TEST_CASE("a key of words is drawn word by word, in the order of the sweep") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    REQUIRE(
        workspace
            .run("run s.yaml -o out --plot x=hardware,y=memory.device_used,by=training.sequence "
                 "--plot x=policies,y=memory.device_used")
            .code == 0);
    const std::string csv = workspace.read("out/plot.svg.csv");
    CHECK(contains(csv, "line,hardware,memory.device_used,fits\n128,v100-sxm-16gb,"));
    CHECK(contains(csv, "\n512,a100-sxm-40gb,"));
    const std::string svg = workspace.read("out/plot.svg");
    const std::size_t first = svg.find(">v100-sxm-16gb</text>");
    const std::size_t second = svg.find(">a100-sxm-40gb</text>");
    REQUIRE(second != std::string::npos);
    CHECK(first < second);
    CHECK(contains(workspace.read("out/plot-2.svg"), ">no policy</text>"));
    CHECK(contains(workspace.read("out/plot-2.svg.csv"),
                   "\"sequence 128, v100-sxm-16gb\",checkpoint_every(period 1),"));
  }

  TEST_CASE("steps that do not fit have no time, and a figure that no point has is not drawn") {
    const Workspace workspace;
    workspace.write("s.yaml",
                    "{model: {preset: gpt2, layers: 2}, hardware: v100-sxm-16gb, sweep: {matrix: "
                    "{training.micro_batch: [8, 1024]}}}");
    const Outcome outcome = workspace.run(
        "run s.yaml -o out --plot x=training.micro_batch,y=time.step --plot "
        "x=training.micro_batch,y=policies.optimal.gap");
    REQUIRE(outcome.code == 0);
    const std::string csv = workspace.read("out/plot.svg.csv");
    CHECK(contains(csv, ",8,0."));
    CHECK(contains(csv, ",1024,,false\n"));
    CHECK(contains(outcome.err, "no point has the figure policies.optimal.gap"));
    CHECK_FALSE(workspace.exists("out/plot-2.svg"));
    // A sweep looks for the smallest capacity of what fits where it is asked to.
    const std::string smallest = " --plot x=training.micro_batch,y=memory.smallest_capacity";
    CHECK(workspace.run("sweep s.yaml -o fast" + smallest).code == 0);
    CHECK(contains(workspace.read("fast/plot.svg.csv"), ",8,,true\n"));
    CHECK(workspace.run("sweep s.yaml -o whole --smallest-capacity" + smallest).code == 0);
    CHECK(contains(workspace.read("whole/plot.svg.csv"), ",8,"));
    CHECK_FALSE(contains(workspace.read("whole/plot.svg.csv"), ",8,,true\n"));
  }

  TEST_CASE("mistakes in --plot are said before anything is simulated") {
    const Workspace workspace;
    workspace.write("s.yaml", kSweep);
    const auto refused = [&](const std::string& plot, const std::string& part,
                             const std::string& more = "-o out") {
      const Outcome outcome = workspace.run(fmt::format("run s.yaml {} --plot {}", more, plot));
      CAPTURE(outcome.err);
      CHECK(outcome.code == 2);
      CHECK(contains(outcome.err, part));
      CHECK_FALSE(workspace.exists("out"));
    };
    refused("x=training.sequence", "--plot: expected x=KEY,y=FIGURE,by=KEY");
    refused("x=training.sequence,z=3", "expected x=KEY,y=FIGURE,by=KEY, found 'z=3'");
    refused("x=training.sequence,x=a,y=time.step", "x is given twice");
    refused("x=training.sequences,y=time.step",
            "no sweep changes 'training.sequences'; swept are "
            "hardware, policies, training.sequence");
    refused("x=training.sequence,y=time.stp", "there is no figure 'time.stp'; did you mean");
    refused("x=training.sequence,y=time.step", "give -o DIR", "");
    refused("x=training.sequence,y=time.step", "no sweep changes", "-s sweep=null -o out");
  }
}

}  // namespace tidemark::testing::plot_option_test
