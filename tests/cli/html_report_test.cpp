// report.html as `run` writes it; in a browser where there is one.
#include "plots/report/html_report.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "tests/cli/command_runner.hpp"

namespace tidemark::testing {
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
name: what checkpointing and the device's memory change
model: {preset: gpt2, layers: 6}
hardware: v100-sxm-16gb
training: {micro_batch: 8, sequence: 1024}
sweep:
  matrix:
    policies: [[], [checkpoint_every: {period: 1}], [checkpoint_every: {period: 2}]]
    hardware.hbm.capacity: [6GiB, 7GiB, 10GiB]
report: {formats: [html]}
)";

std::string path_of(const std::string& program) {
  std::string found;
  std::FILE* pipe = popen(("command -v " + program + " 2>/dev/null").c_str(), "r");
  char buffer[512];
  if (std::fgets(buffer, sizeof buffer, pipe) != nullptr) found = buffer;
  pclose(pipe);
  return found.substr(0, found.find('\n'));
}

std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (const std::string found = path_of(name); !found.empty()) return found;
  }
  return {};
}

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
    CHECK(files.run("run sweep.yaml -o out --json").code == 1);  // 6 GiB do not do
    CHECK(files.names("out") == std::vector<std::string>{"report.html"});
    CHECK(contains(files.read("out/report.html"), "id=\"run-8\""));
  }

  TEST_CASE("points of models in files are named by the files, without the folders") {
    const Workspace files;
    const std::string folder = std::string(TIDEMARK_SOURCE_DIR) + "/scenarios/models";
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
    const std::string node = path_of("node");
    const std::string chromium = browser();
    const std::filesystem::path packages = TIDEMARK_NPM_PACKAGES;
    if (!has_html_report() || node.empty() || chromium.empty() ||
        !std::filesystem::exists(packages / "playwright-core")) {
      MESSAGE("skipped: needs npm when it is built, node, chromium and playwright-core");
      return;
    }
    const Workspace files;
    files.write("one.yaml", kOne);
    files.write("sweep.yaml", kSweep);
    REQUIRE(files.run("run one.yaml -o one --json").code == 0);
    REQUIRE(files.run("run sweep.yaml -o sweep --json").code == 1);
    std::filesystem::rename(files.folder() / "one/report.html", files.folder() / "one.html");
    std::filesystem::rename(files.folder() / "one/results.json", files.folder() / "results.json");
    std::filesystem::rename(files.folder() / "sweep/report.html", files.folder() / "compare.html");
    write_long_run(files, 67, "100k.html");
    write_long_run(files, 667, "1m.html");
    const std::string command = "'" + node + "' '" + TIDEMARK_SOURCE_DIR +
                                "/tests/plots/report/browser_test.mjs' '" + packages.string() +
                                "' '" + chromium + "' '" + files.folder().string() + "' '" +
                                TIDEMARK_SCREENSHOTS + "' 2>&1";
    std::FILE* pipe = popen(command.c_str(), "r");
    std::string output;
    char buffer[4096];
    for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      output.append(buffer, n);
    const int status = pclose(pipe);
    INFO(output);
    CHECK(status == 0);
    CHECK(contains(output, "all checks passed"));
  }
}

}  // namespace
}  // namespace tidemark::testing
