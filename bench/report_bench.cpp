// The cost of a report: time to write it, its size, and time until a browser has painted it.
#include <filesystem>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "bench/figures.hpp"
#include "plots/report/html_report.hpp"
#include "plots/report/run_columns.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/results/result_document.hpp"
#include "sim/step/run_compiled.hpp"
#include "sim/step/simulate.hpp"
#include "tests/support/programs.hpp"

namespace tidemark::bench {
namespace {

constexpr std::string_view kReportedLlama = R"(
version: 1
name: llama-2-7b
model: llama-2-7b
hardware: h100-sxm-80gb
training: {micro_batch: 1, sequence: 4096, steps: 2}
)";

// A run of gpt2 with as many micro-batches as it takes: 1,500 changes of memory in each.
struct LongRun {
  const char* figure;
  int micro_batches;
  const char* required;
};
constexpr LongRun kLongRuns[] = {{"report.paint_100k_points", 67, "< 2000"},
                                 {"report.paint_1m_points", 667, "< 5000"}};

// Returns the times to paint; none without node, playwright-core and a browser.
std::vector<Figure> paint_figures() {
  const std::string node = test::program_on_path("node", "nodejs");
  const std::string chromium = test::browser_on_path();
  const std::filesystem::path packages = TIDEMARK_NPM_PACKAGES;
  if (node.empty() || chromium.empty() || !std::filesystem::exists(packages / "playwright-core")) {
    return {};
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("tidemark-bench-{}", getpid());
  std::string files;
  for (const LongRun& run : kLongRuns) {
    static_cast<void>(test::output_of(fmt::format(
        "'{}' run gpt2 --gpu h100-sxm-80gb -s training.accumulate={} -s training.steps=1 "
        "-s training.sequence=128 -s 'report={{formats: [html]}}' --json -o '{}'",
        TIDEMARK_BINARY, run.micro_batches, (folder / run.figure).string())));
    files += fmt::format(" '{}'", (folder / run.figure / "report.html").string());
  }
  const test::ProgramOutput output =
      test::output_of(fmt::format("'{}' '{}/bench/report_paint.mjs' '{}' '{}'{}", node,
                                  TIDEMARK_SOURCE_DIR, packages.string(), chromium, files));
  std::vector<Figure> figures;
  if (output.status == 0) {
    const auto times = nlohmann::json::parse(output.text);
    for (const LongRun& run : kLongRuns) {
      figures.push_back({.name = run.figure,
                         .value = times.at((folder / run.figure / "report.html").string()),
                         .unit = "ms",
                         .required = run.required});
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return figures;
}

}  // namespace

std::vector<Figure> report_figures() {
  if (!has_html_report()) return {};
  const Environment environment = default_environment({});
  const Scenario scenario =
      decode_scenario(parse_document(kReportedLlama, "bench.yaml"), environment);
  PointDetail detail;
  detail.model = std::make_shared<const TrainedModel>(build_training(scenario));
  const PointResult result =
      simulate(scenario, *detail.model, {.smallest_capacity = false}, &detail);
  std::string page;
  // Writes as `run` does: with the addresses of blocks, also for this step, which does not fit.
  const double seconds = median_seconds(5, [&] {
    const AddressLayout layout = address_layout(scenario, detail.compiled, detail.timeline,
                                                result.status == PointStatus::kFits);
    HtmlReport report{.title = "llama-2-7b",
                      .summary = result_document(std::span(&result, 1)).dump(),
                      .runs = {run_columns({.graph = detail.model->training,
                                            .order = detail.compiled.order,
                                            .program = detail.compiled.program,
                                            .costs = detail.compiled.costs,
                                            .scratch = detail.scratch,
                                            .timeline = detail.timeline,
                                            .layout = &layout})}};
    std::ostringstream out;
    write_html_report(out, report);
    page = std::move(out).str();
  });
  std::vector<Figure> figures = paint_figures();
  figures.insert(figures.begin(), {{.name = "report.html_llama_2_7b",
                                    .value = seconds * 1e3,
                                    .unit = "ms",
                                    .required = "< 1000"},
                                   {.name = "report.html_llama_2_7b_size",
                                    .value = static_cast<double>(page.size()) * 1e-6,
                                    .unit = "MB",
                                    .required = "< 3"}});
  return figures;
}

}  // namespace tidemark::bench
