// Whole training steps of PyTorch to the byte: each recorded step as the scenario that describes it
// (tests/data/torch/steps.yaml).
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/decoder.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shared_data.hpp"

namespace tidemark::torch_steps_test {
namespace {

// A name and a figure, as text: differences read "peak: 12 instead of 16".
using Figures = std::vector<std::pair<std::string, std::string>>;

struct RecordedStep {
  std::string name;
  Value scenario;
  Figures figures;
};

std::vector<RecordedStep> recorded_steps() {
  const Value document = read_document(test::data_path("torch/steps.yaml"));
  std::vector<RecordedStep> steps;
  for (const Value& item : document.find("steps")->items) {
    RecordedStep step{.name = item.find("name")->scalar, .scenario = item, .figures = {}};
    for (const Value::Entry& figure : item.find("figures")->entries) {
      step.figures.emplace_back(figure.key, figure.value.scalar);
    }
    std::erase_if(step.scenario.entries, [](const Value::Entry& e) { return e.key == "figures"; });
    apply_override(step.scenario, parse_override("hardware=h100-sxm-80gb"));
    apply_override(step.scenario, parse_override("allocator=ideal"));
    steps.push_back(std::move(step));
  }
  return steps;
}

Figures simulated(const Value& document) {
  const Scenario scenario = decode_scenario(document, environment());
  const TrainedModel model = build_training(scenario);
  const PointResult point = simulate(scenario, model, {.smallest_capacity = false});
  const auto text = [](Bytes bytes) { return std::to_string(bytes.count); };
  const auto phase = [&](Phase p) {
    const std::size_t index = static_cast<std::size_t>(p);
    return std::to_string(point.run.phase_live_without_workspace[index].bytes.count);
  };
  return {{"parameters", text(point.parameters)},
          {"buffers", text(point.buffers)},
          {"inputs", text(point.inputs)},
          {"gradients", text(point.gradients)},
          {"optimizer_state", text(point.optimizer_state)},
          {"saved_activations", text(point.saved_activations)},
          {"peak", std::to_string(point.run.live_without_workspace.bytes.count)},
          {"phase", std::string(name_of(point.phase_without_workspace))},
          {"forward", phase(Phase::kForward)},
          {"backward", phase(Phase::kBackward)},
          {"optimizer", phase(Phase::kOptimizer)}};
}

// Returns the figures of a step as the recorder wrote them.
Figures recorded(const Value& json) {
  const auto at = [&](std::initializer_list<std::string_view> path) {
    const Value* value = &json;
    for (std::string_view key : path) {
      value = value->find(key);
      REQUIRE(value != nullptr);
    }
    return value->scalar;
  };
  const auto peak = [&](std::string_view phase) {
    return std::stoll(at({"derived", "phase_peaks_excl_ws", phase}));
  };
  constexpr std::int64_t kRecorder = 292;  // a profiling range in zero_grad and SGD.step
  const std::int64_t optimizer = peak("opt") - (at({"opt"}) == "SGD" ? kRecorder : 0);
  const std::int64_t forward = std::max({peak("zero_grad") - kRecorder, peak("fwd"), peak("loss")});
  const std::string phase = at({"derived", "phase_of_that_peak"});
  return {{"parameters", at({"param_bytes"})},
          {"buffers", at({"buffer_bytes"})},
          {"inputs", at({"input_bytes"})},
          {"gradients", at({"grad_bytes"})},
          {"optimizer_state", at({"opt_state_bytes"})},
          {"saved_activations", at({"saved", "unique_activation_bytes"})},
          {"peak", at({"derived", "peak_excluding_kernel_workspace"})},
          {"phase", phase == "bwd"   ? "backward"
                    : phase == "opt" ? "optimizer"
                                     : "forward"},
          {"forward", std::to_string(forward)},
          {"backward", std::to_string(peak("bwd"))},
          {"optimizer", std::to_string(optimizer)}};
}

}  // namespace

TEST_SUITE("golden") {
  TEST_CASE("71 recorded steps of PyTorch are simulated to the byte, in every phase") {
    const std::vector<RecordedStep> steps = recorded_steps();
    CHECK(steps.size() == 71);
    for (const RecordedStep& step : steps) {
      CAPTURE(step.name);
      const Figures got = simulated(step.scenario);
      REQUIRE(got.size() == step.figures.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        CAPTURE(got[i].first);
        CHECK(got[i] == step.figures[i]);
      }
    }
  }

  TEST_CASE("the recorded figures are those of the recordings") {
    const std::filesystem::path folder = shared_path("cases/torch");
    if (!std::filesystem::exists(folder)) {
      MESSAGE("skipped: there are no recordings at " << folder.string());
      return;
    }
    for (const RecordedStep& step : recorded_steps()) {
      CAPTURE(step.name);
      CHECK(recorded(read_document((folder / (step.name + ".json")).string())) == step.figures);
    }
  }
}

}  // namespace tidemark::torch_steps_test
