#include <cstdlib>
#include <filesystem>
#include <string>

#include <benchmark/benchmark.h>

#include "bench/figures.hpp"
#include "graph/core/document.hpp"
#include "scenarios/read/environment.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/memory/packing/buffers_csv.hpp"
#include "sim/memory/packing/pack.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/compile.hpp"

namespace tidemark::bench {
namespace {

// Returns where the published instances are; they are not part of the repository, and without them
// there are no figures.
std::filesystem::path packing_instances() {
  return shared_path("cases/packing");
}

Compiled packed_step(const Environment& environment, const std::string& model,
                     const std::string& policies) {
  const Value document = parse_document(
      "version: 1\nmodel: " + model +
          "\nhardware: h100-sxm-80gb\nallocator: packed\npolicies: " + policies + "\n",
      "bench.yaml");
  const Scenario scenario = decode_scenario(document, environment);
  return compile(scenario, build_training(scenario));
}

void add_step_figures(std::vector<Figure>& figures) {
  const Environment environment = default_environment({});
  for (const std::string model : {"gpt2", "llama-3.2-1b", "resnet50"}) {
    for (const bool checkpointed : {false, true}) {
      const Compiled step =
          packed_step(environment, model, checkpointed ? "[checkpoint_every: {period: 1}]" : "[]");
      const std::string name = "packing." + model + (checkpointed ? ".checkpointed" : "") + ".";
      const double height = static_cast<double>(step.placement.height.count);
      figures.push_back({.name = name + "height_over_live_bytes",
                         .value = height / static_cast<double>(step.placement.lower_bound.count),
                         .unit = "",
                         .required = "<= 1.01"});
      const double seconds =
          median_seconds(3, [&] { benchmark::DoNotOptimize(place_program(step.program).height); });
      figures.push_back({.name = name + "place", .value = seconds * 1e3, .unit = "ms"});
    }
  }
}

}  // namespace

std::vector<Figure> packing_figures() {
  std::vector<Figure> figures;
  add_step_figures(figures);
  for (const char name : std::string("ABCDEFGHIJK")) {
    const std::string path =
        (packing_instances() / (std::string(1, name) + ".1048576.csv")).string();
    if (!std::filesystem::exists(path)) continue;
    const NamedProblem named = parse_buffers(read_text_file(path), path);
    PackResult result;
    const double seconds =
        median_seconds(1, [&] { result = pack(named.problem, {.capacity = kMiB}); });
    const std::string prefix = std::string("packing.minimalloc.") + name;
    figures.push_back(
        {.name = prefix + ".seconds", .value = seconds, .unit = "s", .required = "< 10"});
    figures.push_back({.name = prefix + ".height",
                       .value = static_cast<double>(result.packing.height.count),
                       .unit = "B",
                       .required = "<= 1048576"});
  }
  return figures;
}

}  // namespace tidemark::bench
