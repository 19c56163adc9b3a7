// What a report costs: time to write it and its size.
#include <sstream>
#include <string>

#include "bench/figures.hpp"
#include "plots/report/html_report.hpp"
#include "plots/report/run_columns.hpp"
#include "scenarios/environment.hpp"
#include "scenarios/result_document.hpp"
#include "scenarios/simulate.hpp"

namespace tidemark::bench {
namespace {

constexpr std::string_view kLlama = R"(
version: 1
name: llama-2-7b
model: llama-2-7b
hardware: h100-sxm-80gb
training: {micro_batch: 1, sequence: 4096, steps: 2}
)";

}  // namespace

std::vector<Figure> report_figures() {
  if (!has_html_report()) return {};
  const Environment environment = default_environment({});
  const Scenario scenario = decode_scenario(parse_document(kLlama, "bench.yaml"), environment);
  PointDetail detail;
  detail.model = std::make_shared<const TrainedModel>(build_training(scenario));
  const PointResult result =
      simulate(scenario, *detail.model, {.smallest_capacity = false}, &detail);
  std::string page;
  // As `run` writes it: the allocator's record included, and of this step, which does not fit.
  const double seconds = median_seconds(5, [&] {
    Scratch scratch;
    const auto recorder =
        run_recorded(scenario, detail.compiled, scratch, result.status == PointStatus::kFits);
    HtmlReport report{.title = "llama-2-7b",
                      .summary = result_document(std::span(&result, 1)),
                      .runs = {run_columns({.graph = detail.model->training,
                                            .order = detail.compiled.order,
                                            .program = detail.compiled.program,
                                            .costs = detail.compiled.costs,
                                            .scratch = detail.scratch,
                                            .timeline = detail.timeline,
                                            .recorder = recorder.get()})}};
    std::ostringstream out;
    write_html_report(out, report);
    page = std::move(out).str();
  });
  return {{.name = "report.html_llama_2_7b",
           .value = seconds * 1e3,
           .unit = "ms",
           .required = "< 1000"},
          {.name = "report.html_llama_2_7b_size",
           .value = static_cast<double>(page.size()) * 1e-6,
           .unit = "MB",
           .required = "< 3"}};
}

}  // namespace tidemark::bench
