#include <cstdlib>
#include <fstream>
#include <string>
#include <tuple>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include "bench/figures.hpp"
#include "plots/chrome_trace.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/studies/simulate_point.hpp"
#include "sim/step/simulate.hpp"

namespace tidemark::bench {
namespace {

constexpr std::string_view kLlama = R"(
version: 1
name: llama-2-7b
model: llama-2-7b
hardware: h100-sxm-80gb
training: {micro_batch: 1, sequence: 4096, steps: 2}
allocator: ideal
policies: [checkpoint_every: {period: 1}]
)";

// Reads, builds, lowers, verifies, prices and runs a scenario, as `tidemark run` does.
PointResult whole(const Environment& environment, std::string_view text) {
  const Value document = parse_document(text, "bench.yaml");
  const Scenario scenario = decode_scenario(document, environment);
  const TrainedModel model = build_training(scenario);
  return simulate(scenario, model, {.smallest_capacity = false});
}

// Writes both steps of a run that exists already as Chrome trace events.
double chrome_trace_seconds(const Environment& environment, std::string_view text) {
  const Scenario scenario = decode_scenario(parse_document(text, "bench.yaml"), environment);
  const TrainedModel model = build_training(scenario);
  PointDetail detail;
  const PointResult point = simulate(scenario, model, {.smallest_capacity = false}, &detail);
  const Compiled& compiled = detail.compiled;
  return median_seconds(9, [&] {
    std::ofstream out("/dev/null", std::ios::binary);
    write_chrome_trace(
        out, model.training, compiled.program,
        trace_model(model.training, compiled.order, compiled.program, compiled.costs,
                    detail.scratch, detail.timeline),
        {.name = point.name, .device = scenario.device.name, .capacity = point.capacity});
  });
}

constexpr std::string_view kManyStages = R"(
version: 1
name: llama-3.1-405b
model: llama-3.1-405b
hardware: {gpu: h100-sxm-80gb, count: 512}
training: {micro_batch: 1, sequence: 8192, accumulate: 32, precision: bf16_mixed, steps: 2}
policies: [tensor_parallel: {size: 8}, pipeline: {size: 16, split: balanced}]
)";

constexpr std::string_view kManyRanks = R"(
version: 1
name: llama-3-8b
model: llama-3-8b
hardware: {gpu: h100-sxm-80gb, count: 1024}
training: {micro_batch: 1, sequence: 8192, precision: bf16_mixed, steps: 2}
policies: [fsdp: {version: 2}]
)";

// Simulates a scenario as `tidemark run` does, with advice where it does not fit.
void with_advice(const Environment& environment, std::string_view text) {
  const Value document = parse_document(text, "bench.yaml");
  const Scenario scenario = decode_scenario(document, environment);
  static_cast<void>(simulate_alone(
      document, scenario, environment,
      {.options = {.convergence_limit = kConvergenceLimit, .suggestions = true}}, {}));
}

// Returns a run of GPT-2 with 1,536 layers.
std::string deep_run(std::string_view allocator) {
  return fmt::format(
      "{{version: 1, model: {{preset: gpt2, layers: 1536}}, hardware: {{gpu: h100-sxm-80gb, "
      "hbm: {{capacity: 4000GiB}}}}, allocator: {}}}",
      allocator);
}

void gpt2_1536_layers(benchmark::State& state) {
  const Environment environment = default_environment({});
  const std::string text = deep_run(state.range(0) == 0 ? "ideal" : "torch");
  for (auto _ : state)
    benchmark::DoNotOptimize(whole(environment, text));
}
BENCHMARK(gpt2_1536_layers)->DenseRange(0, 1)->ArgName("torch")->Unit(benchmark::kMillisecond);

}  // namespace

std::vector<Figure> pipeline_figures() {
  const Environment environment = default_environment({});
  std::vector<Figure> figures;
  PointResult last;
  const double seconds = median_seconds(15, [&] { last = whole(environment, kLlama); });
  figures.push_back({.name = "pipeline.llama_2_7b_checkpointed",
                     .value = seconds * 1e3,
                     .unit = "ms",
                     .required = "< 50"});
  for (const std::string_view model : {"llama-2-70b", "mixtral-8x7b"}) {
    std::string text(kLlama);
    for (std::size_t at = text.find("llama-2-7b"); at != std::string::npos;
         at = text.find("llama-2-7b", at + model.size())) {
      text.replace(at, std::string_view("llama-2-7b").size(), model);
    }
    PointResult large;
    const double spent = median_seconds(9, [&] { large = whole(environment, text); });
    figures.push_back({.name = "pipeline." + std::string(model) + "_checkpointed",
                       .value = spent * 1e3,
                       .unit = "ms",
                       .required = "< 200"});
  }
  for (const PassTime& pass : last.passes) {
    figures.push_back({.name = "pipeline.pass." + pass.name,
                       .value = static_cast<double>(pass.wall.count()) * 1e-6,
                       .unit = "ms"});
  }
  std::string torch(kLlama);
  torch.replace(torch.find("ideal"), 5, "torch");
  figures.push_back({.name = "pipeline.llama_2_7b_checkpointed_torch_allocator",
                     .value = median_seconds(15, [&] { last = whole(environment, torch); }) * 1e3,
                     .unit = "ms",
                     .required = "at most 3 times that of the ideal allocator"});
  for (const auto& [name, text, required] :
       {std::tuple("llama_3_1_405b_16_stages", kManyStages, "< 2"),
        std::tuple("llama_3_8b_fsdp2_1024_ranks", kManyRanks, "< 0.1")}) {
    figures.push_back({.name = std::string("parallel.") + name,
                       .value = median_seconds(5, [&] { with_advice(environment, text); }),
                       .unit = "s",
                       .required = required});
  }
  for (const std::string_view allocator : {"ideal", "torch"}) {
    figures.push_back(
        {.name = fmt::format("pipeline.gpt2_1536_layers_{}", allocator),
         .value = median_seconds(
             5, [&, text = deep_run(allocator)] { static_cast<void>(whole(environment, text)); }),
         .unit = "s",
         .required = allocator == "ideal" ? "<= 0.35" : "<= 0.8"});
  }
  figures.push_back({.name = "trace.llama_2_7b_chrome",
                     .value = chrome_trace_seconds(environment, torch) * 1e3,
                     .unit = "ms"});
  const std::string binary = TIDEMARK_BINARY;
  if (access(binary.c_str(), X_OK) == 0) {
    const std::string command = binary + " --version > /dev/null";
    figures.push_back(
        {.name = "cli.version",
         .value = median_seconds(21, [&] { (void)std::system(command.c_str()); }) * 1e3,
         .unit = "ms",
         .required = "< 10"});
  }
  return figures;
}

}  // namespace tidemark::bench
