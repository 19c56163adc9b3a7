// Models that bench/torch_models generates, against what PyTorch was recorded to do with them
// (tests/data/torch/generated).
#if TIDEMARK_READS_ONNX
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scenarios/read/scenario.hpp"
#include "sim/step/simulate.hpp"
#include "tests/scenarios/scenario_files.hpp"
#include "tests/support/paths.hpp"

namespace tidemark::generated_steps_test {

TEST_SUITE("golden") {
  TEST_CASE("generated models keep and peak as the recorded step of PyTorch does") {
    const Value document = read_document(test::data_path("torch/generated/steps.yaml"));
    int compared = 0;
    for (const Value& step : document.find("steps")->items) {
      const std::string file = step.find("file")->scalar;
      CAPTURE(file);
      Value scenario = step;
      std::erase_if(scenario.entries, [](const Value::Entry& entry) {
        return entry.key == "file" || entry.key == "figures";
      });
      apply_override(scenario, parse_override("hardware=h100-sxm-80gb"));
      apply_override(scenario, parse_override("allocator=ideal"));
      apply_override(scenario, parse_override(fmt::format(
                                   "model.onnx={}", test::data_path("torch/generated/" + file))));
      const Scenario decoded = decode_scenario(scenario, environment());
      const PointResult point =
          simulate(decoded, build_training(decoded), {.smallest_capacity = false});
      const auto figure = [&](std::string_view name) {
        return std::stoll(step.find("figures")->find(name)->scalar);
      };
      const auto peak = [&](Phase phase) {
        return point.run.phase_live_without_workspace[static_cast<std::size_t>(phase)].bytes.count;
      };
      CHECK(point.saved_activations.count == figure("saved"));
      CHECK(peak(Phase::kBackward) == figure("backward"));
      CHECK(peak(Phase::kOptimizer) == figure("optimizer"));
      ++compared;
    }
    CHECK(compared == 48);
  }
}

}  // namespace tidemark::generated_steps_test
#endif
