// report.html as `run` writes it; in a browser where there is one.
#include "plots/report/html_report.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "tests/cli/command_runner.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/programs.hpp"

namespace tidemark::testing::html_report_test {
namespace {

constexpr const char* kOne = R"(version: 1
name: GPT-2 <with> "offloading" & more
model: gpt2
hardware: v100-sxm-16gb
training: {micro_batch: 4, sequence: 512}
policies:
  - checkpoint: {first: 6}
  - offload_activations: {prefetch: 2}
report: {formats: [html, json]}
)";
constexpr const char* kSweep = R"(version: 1
name: what_checkpointing_and_the_memory_of_the_device_change, with/a/name/that/has/no/place/to/break
model: {preset: gpt2, layers: 6}
hardware: v100-sxm-16gb
training: {micro_batch: 8, sequence: 1024}
sweep:
  matrix:
    policies: [[], [checkpoint_every: {period: 1}], [checkpoint_every: {period: 2}]]
    hardware.hbm.capacity: [6GiB, 7GiB, 10GiB]
report: {formats: [html]}
)";

constexpr const char* kSwept = R"(version: 1
name: GPT-2 over four keys
model: {preset: gpt2, layers: 2}
hardware: v100-sxm-16gb
training: {steps: 1}
sweep:
  matrix:
    hardware: [v100-sxm-16gb, a100-sxm-40gb]
    training.micro_batch: [4, 16, 64]
    training.sequence: [256, 1024]
    policies: [[], [checkpoint_every: {period: 1}]]
report: {formats: [html]}
)";
// 1,300 points, or with a whole range of micro-batches 10,000.
std::string many_points(bool all) {
  return std::string(R"(version: 1
name: many points
model: mlp
hardware: v100-sxm-16gb
training: {steps: 1}
sweep:
  matrix:
    training.micro_batch: {from: 100, to: )") +
         (all ? "10000" : "1300") + R"(, step: 100}
    training.accumulate: {from: 1, to: 10}
    training.optimizer: [sgd, adam]
    hardware.hbm.capacity: [560MiB, 600MiB, 800MiB, 1GiB, 16GiB]
report: {formats: [html]}
)";
}

constexpr const char* kHostOptimizer = R"(version: 1
model: {preset: gpt2, layers: 4}
hardware: v100-sxm-16gb
training: {micro_batch: 1, sequence: 256}
policies: [offload_optimizer: {gradients: backward}]
report: {formats: [html]}
)";
constexpr const char* kEviction = R"(version: 1
model: {preset: gpt2, layers: 12, vocab: 8192}
hardware: {gpu: a100-sxm-40gb, hbm: {capacity: 4GiB}}
training: {micro_batch: 8, sequence: 512, attention: math}
sweep: {matrix: {policies: [[eviction: {heuristic: dtr_eq, mode: eager}], []]}}
report: {formats: [html]}
)";
constexpr const char* kBudgets = R"(version: 1
name: policies against budgets
model: {preset: gpt2, layers: 6}
hardware: v100-sxm-16gb
training: {micro_batch: 4, sequence: 512}
compare:
  policies: [[], [checkpoint_every: {period: 1}], [chen_sqrt], [optimal]]
  budgets: [85%, 92%, 100%]
  iterations: 50
)";

constexpr const char* kMany = R"(version: 1
name: many policies under one budget
model: {preset: gpt2, layers: 2, vocab: 4096}
hardware: v100-sxm-16gb
training: {micro_batch: 8, sequence: 512}
compare:
  policies: [[], [checkpoint_every: {period: 1}], [checkpoint_every: {period: 2}], [chen_sqrt],
             [chen_greedy], [offload_activations], [belady], [capuchin], [vdnn], [optimal]]
  budgets: [90%]
  iterations: 50
)";

// gpt2 with as many micro-batches as it takes: 1,500 changes of memory in each.
void write_long_run(const Workspace& files, int micro_batches, const std::string& name) {
  const Outcome run = files.run(
      "run gpt2 --gpu h100-sxm-80gb -s training.accumulate=" + std::to_string(micro_batches) +
      " -s training.steps=1 -s training.sequence=128 -s 'report={formats: [html]}' --json -o long");
  REQUIRE(run.code == 0);
  std::filesystem::rename(files.folder() / "long/report.html", files.folder() / name);
}

TEST_SUITE("unit") {
  TEST_CASE("a report is one file that names no other, with the user's texts escaped") {
    if (!has_html_report()) {
      MESSAGE("skipped: built without npm");
      return;
    }
    const Workspace files;
    files.write("one.yaml", kOne);
    REQUIRE(files.run("run one.yaml -o out --json").code == 0);
    const std::string page = files.read("out/report.html");
    CHECK(files.names("out").size() == 2);  // results.json beside it
    CHECK(contains(page, "<title>GPT-2 &lt;with&gt; \"offloading\" &amp; more</title>"));
    CHECK(contains(page, "Permission is hereby granted"));  // uPlot's licence
    for (const char* loads : {"src=", "@import", "url(", "fetch(", "XMLHttpRequest", "{{"}) {
      CAPTURE(loads);
      CHECK_FALSE(contains(page, loads));
    }
    CHECK(files.run("run one.yaml -o again --json").code == 0);
    CHECK(files.read("again/report.html") == page);
  }

  TEST_CASE("-o writes a report where formats are left to their defaults, and only there") {
    const Workspace files;
    REQUIRE(files.run("run mlp --gpu v100-sxm-16gb -o all --json").code == 0);
    CHECK(files.exists("all/report.html") == has_html_report());
    REQUIRE(
        files.run("run mlp --gpu v100-sxm-16gb -s 'report={formats: [csv]}' -o csv --json").code ==
        0);
    CHECK_FALSE(files.exists("csv/report.html"));
  }

  TEST_CASE("all points of a sweep are in one report, also those that fail") {
    if (!has_html_report()) return;
    const Workspace files;
    files.write("sweep.yaml", kSweep);
    // 6 GiB do not suffice for every point.
    CHECK(files.run("run sweep.yaml -o out --json").code == 0);
    CHECK(files.names("out") == std::vector<std::string>{"report.html"});
    CHECK(contains(files.read("out/report.html"), "id=\"run-8\""));
  }

  TEST_CASE("the report of a step of llama-2-7b takes less than 3 MB") {
    if (!has_html_report()) return;
    const Workspace files;
    const Outcome run = files.run(
        "run llama-2-7b --gpu h100-sxm-80gb -s training.sequence=4096 "
        "-s 'report={formats: [html]}' --json -o out");
    CHECK(run.code == 1);  // 16 bytes for each of 6.7 G parameters are too many
    CHECK(std::filesystem::file_size(files.folder() / "out/report.html") < 3'000'000);
  }

  TEST_CASE("where the author keeps a model's file is not in the report") {
    if (!has_html_report()) return;
    const Workspace files;
    const std::string folder = test::source_path("scenarios/models");
    REQUIRE(files
                .run("run " + folder +
                     "/llama-3.2-1b.json --gpu h100-sxm-80gb "
                     "-s training.sequence=64 -o out --json")
                .code == 0);
    // The page's data are packed, so they are looked at where they are plain.
    const std::string node = test::program_on_path("node", "nodejs");
    if (node.empty()) return;
    const test::ProgramOutput summary = test::output_of(
        "'" + node + "' -e \"const t = require('fs').readFileSync('" +
        (files.folder() / "out/report.html").string() +
        "', 'utf8'); for (const [, b] of t.matchAll(/id=.(?:summary|run-0).>([^<]*)</g)) "
        "process.stdout.write(require('zlib').gunzipSync(Buffer.from(b, 'base64')))\"");
    REQUIRE(summary.status == 0);
    CHECK(contains(summary.text, "llama-3.2-1b.json"));
    // Neither as it was written, nor by way of the folders above the one where it ran.
    CHECK_FALSE(contains(summary.text, "scenarios/models"));
  }

  TEST_CASE("compare writes a report where formats are left to their defaults") {
    const Workspace files;
    files.write("s.yaml", "model: {graph: " + test::data_path("rematerialization/chain_n6.json") +
                              "}\n"
                              "compare: {policies: [[], [optimal]], budgets: [100%, 1]}\n");
    REQUIRE(files.run("compare s.yaml -o out --json").code == 0);
    CHECK(files.exists("out/report.html") == has_html_report());
    REQUIRE(files.run("compare s.yaml -s 'report={formats: [csv]}' -o csv --json").code == 0);
    CHECK_FALSE(files.exists("csv/report.html"));
  }

  TEST_CASE("points of models in files are named by the files, without the folders") {
    const Workspace files;
    const std::string folder = test::source_path("scenarios/models");
    files.write("sweep.yaml",
                "version: 1\nhardware: v100-sxm-16gb\nallocator: ideal\n"
                "training: {steps: 1}\nmodel: {preset: gpt2}\nsweep: {matrix: {model: [{graph: '" +
                    folder + "/unet_d2_n10.json'}, {preset: mlp}]}}\n");
    const Outcome run = files.run("run sweep.yaml");
    CHECK(run.code == 0);
    CHECK(contains(run.out, "unet_d2_n10.json"));
    CHECK_FALSE(contains(run.out, folder));
  }
}

TEST_SUITE("slow") {
  TEST_CASE("a browser shows reports: hovering, zooming, choosing, grouping, comparing, in time") {
    const std::string node = test::program_on_path("node", "nodejs");
    const std::string chromium = test::browser_on_path();
    const std::filesystem::path packages = test::npm_packages_path();
    if (!has_html_report() || node.empty() || chromium.empty() ||
        !std::filesystem::exists(packages / "playwright-core")) {
      MESSAGE("skipped: needs npm when it is built, node, chromium and playwright-core");
      return;
    }
    const Workspace files;
    files.write("one.yaml", kOne);
    files.write("sweep.yaml", kSweep);
    REQUIRE(files.run("run one.yaml -o one --json").code == 0);
    REQUIRE(files.run("run sweep.yaml -o sweep --json").code == 0);
    files.write("swept.yaml", kSwept);
    files.write("points.yaml", many_points(test::runs_long_tests()));
    REQUIRE(files.run("run swept.yaml -o swept --json").code == 0);
    // As the page says for a point without charts.
    REQUIRE(files
                .run("run swept.yaml -s sweep=null -s hardware=v100-sxm-16gb "
                     "-s training.micro_batch=16 -s training.sequence=256 "
                     "-s 'policies=[checkpoint_every: {period: 1}]' -s 'report.formats=[html]' "
                     "-o point-6 --json")
                .code == 0);
    CHECK(files.names("point-6") == std::vector<std::string>{"report.html"});
    REQUIRE(files.run("run points.yaml -o points --json").code == 0);
    CHECK(std::filesystem::file_size(files.folder() / "points/report.html") < 4'000'000);
    files.write("budgets.yaml", kBudgets);
    files.write("many.yaml", kMany);
    REQUIRE(files.run("compare budgets.yaml -o budgets --json").code == 0);
    REQUIRE(files.run("compare many.yaml -o many --json").code == 0);
    const auto keep = [&](const std::string& from, const std::string& to) {
      std::filesystem::rename(files.folder() / from, files.folder() / to);
    };
    keep("one/report.html", "one.html");
    keep("one/results.json", "results.json");
    keep("sweep/report.html", "compare.html");
    keep("swept/report.html", "swept.html");
    keep("points/report.html", "points.html");
    keep("budgets/report.html", "budgets.html");
    keep("budgets/results.json", "results-budgets.json");
    keep("many/report.html", "many.html");
    keep("many/results.json", "results-many.json");
    write_long_run(files, 67, "100k.html");
    if (test::runs_long_tests()) {
      files.write("zero.yaml", kHostOptimizer);
      files.write("eviction.yaml", kEviction);
      REQUIRE(files.run("run zero.yaml -o zero --json").code == 0);
      REQUIRE(files.run("run eviction.yaml -o eviction --json").code == 0);
      keep("zero/report.html", "zero.html");
      keep("eviction/report.html", "eviction.html");
      write_long_run(files, 667, "1m.html");
    }
    const char* pictures = std::getenv("TIDEMARK_SCREENSHOTS");  // the folder to leave them in
    const std::string command =
        "'" + node + "' '" + test::source_path("tests/plots/report/browser_test.mjs") + "' '" +
        packages.string() + "' '" + chromium + "' '" + files.folder().string() + "' '" +
        (pictures == nullptr ? "" : pictures) + "' 2>&1";
    const test::ProgramOutput output = test::output_of(command);
    INFO(output.text);
    CHECK(output.status == 0);
    CHECK(contains(output.text, "all checks passed"));
  }
}

}  // namespace
}  // namespace tidemark::testing::html_report_test
