// Runs to be written as traces.
#pragma once

#include <string>

#include "plots/chrome_trace.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark {

struct TracedRun {
  Scenario scenario;
  TrainedModel model;
  PointDetail detail;
  PointResult result;
  TraceModel trace;
  TraceTitle title;

  // `more` adds keys of the scenario, each after a comma.
  explicit TracedRun(const std::string& more, const std::string& hardware = "h100-sxm-80gb")
      : scenario(
            decode("{version: 1, name: 'a \"run\"', model: {preset: gpt, layers: 3, width: 256, "
                   "heads: 4, vocab: 4096, sequence: 256}, hardware: " +
                   hardware + more + "}")),
        model(build_training(scenario)),
        result(simulate(scenario, model, {.smallest_capacity = false}, &detail)),
        trace(trace_model(model.training, detail.compiled.order, detail.compiled.program,
                          detail.compiled.costs, detail.scratch, detail.timeline)),
        title{.name = scenario.name, .device = scenario.device.name, .capacity = result.capacity} {}
};

inline const std::vector<std::string>& traced_settings() {
  static const std::vector<std::string> kSettings{
      ", training: {micro_batch: 4, sequence: 256}",
      ", training: {micro_batch: 4, sequence: 256}, policies: [checkpoint_every: {period: 1}]",
      ", training: {micro_batch: 4, sequence: 256}, policies: [offload_activations: {prefetch: 1}]",
      ", training: {micro_batch: 2, sequence: 256, accumulate: 3}, allocator: ideal, policies: "
      "[checkpoint_every: {period: 2}, offload_activations: {min_bytes: 1KiB}]",
      ", training: {micro_batch: 4, sequence: 256, framework: ideal}, allocator: ideal"};
  return kSettings;
}

}  // namespace tidemark
