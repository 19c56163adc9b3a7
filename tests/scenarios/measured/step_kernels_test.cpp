// Measured steps as kernels: what a fit counts of a step is what the simulation of it launches.
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "hwprofiles/calibrate/calibrate.hpp"
#include "hwprofiles/calibrate/observations.hpp"
#include "scenarios/measured/measured_steps.hpp"
#include "scenarios/studies/simulate_points.hpp"
#include "tests/scenarios/scenario_files.hpp"

namespace tidemark::step_kernels_test {
namespace {

std::string scenario_of(const std::string& model, const std::string& training,
                        const std::string& policies = "") {
  return fmt::format(
      "{{version: 1, model: {}, hardware: rtx-3090-24gb, training: {{{}, framework: "
      "torch-1.13-cuda}}, policies: [{}]}}",
      model, training, policies);
}

// A table of one step that takes `seconds`.
MeasuredSteps table_of(const std::string& scenario, double seconds) {
  MeasuredSteps steps{.file = "steps.csv", .steps = {}, .refused = {}, .other = {}};
  steps.steps.push_back({.group = "steps",
                         .text = "one step",
                         .line = 2,
                         .scenario = scenario,
                         .value = seconds,
                         .model = "one",
                         .device = "rtx-3090-24gb"});
  return steps;
}

MeasuredOperator counted(const std::string& scenario) {
  const MeasuredTable table = kernels_of(table_of(scenario, 0.1), environment(), 1);
  REQUIRE(table.operators.size() == 1);
  return table.operators.front();
}

PointResult simulated(const std::string& scenario) {
  const PointResult point = simulate_points(parse_document(scenario, "s.yaml"), environment(), 1,
                                            {.smallest_capacity = false})
                                .front();
  REQUIRE_MESSAGE(point.status == PointStatus::kFits, point.error);
  return point;
}

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a fit prices the kernels that the last step of a simulation launches") {
    constexpr const char* kAmp =
        "micro_batch: 8, precision: fp16_autocast, loss_scale: dynamic, optimizer: {name: sgd, "
        "momentum: 0.9}";
    const DeviceProfile device =
        load_device_profile("rtx-3090-24gb", environment().profile_folders);
    const std::string gpt =
        "{preset: gpt, layers: 3, width: 256, heads: 4, vocab: 1024, sequence: 128}";
    for (const std::string& scenario :
         {scenario_of("{preset: resnet50, image: 64}", kAmp),
          scenario_of("{preset: resnet50, image: 64}", fmt::format("{}, accumulate: 3", kAmp)),
          scenario_of("{preset: resnet50, image: 64}",
                      fmt::format("{}, memory_format: channels_last", kAmp)),
          scenario_of(gpt, "micro_batch: 2, precision: fp32, optimizer: adamw"),
          // Products of 16 bits run at the rate that the board sustains.
          scenario_of(gpt, "micro_batch: 64, precision: bf16_mixed, optimizer: adamw"),
          // Recomputed kernels run again.
          scenario_of(gpt, "micro_batch: 2, precision: fp32, optimizer: adamw",
                      "checkpoint_every: {period: 1}")}) {
      CAPTURE(scenario);
      const MeasuredOperator op = counted(scenario);
      const PointResult point = simulated(scenario);
      const double predicted = kernel_seconds(op, CostModel(device));
      const Duration busy = point.run.busy[static_cast<std::size_t>(Stream::kCompute)];
      // The simulation adds up whole nanoseconds.
      CHECK(predicted - op.waits == doctest::Approx(seconds_of(busy)).epsilon(1e-9));
      CHECK(predicted == doctest::Approx(seconds_of(point.run.step)).epsilon(1e-9));
    }
  }

  TEST_CASE("steps whose arithmetic is above the peak of the device are refused, with the reason") {
    const std::string scenario =
        scenario_of("{preset: resnet50}", "micro_batch: 64, precision: fp16_autocast");
    const double seconds = seconds_of(simulated(scenario).run.step);
    const auto validated = [&](MeasuredSteps steps) {
      Validation validation;
      validate_steps(steps, environment(), 1, validation);
      return validation;
    };
    const Validation usual = validated(table_of(scenario, seconds / 2));
    CHECK(usual.rows.size() == 1);
    CHECK(usual.refused.empty());
    // Milliseconds that were taken for microseconds.
    const Validation wrong = validated(table_of(scenario, seconds / 1000));
    CHECK(wrong.rows.empty());
    REQUIRE(wrong.refused.size() == 1);
    CHECK(wrong.refused.front().line == 2);
    CHECK(wrong.refused.front().problem.find("times as fast as the peak of rtx-3090-24gb allows") !=
          std::string::npos);
    // The same of a rate: samples per second.
    MeasuredSteps rate = table_of(scenario, 64 / seconds * 1000);
    rate.steps.front().metric = StepMetric::kSamplesPerSecondPerGpu;
    CHECK(validated(rate).refused.size() == 1);
    rate.steps.front().value = 64 / seconds;
    CHECK(validated(rate).refused.empty());
    // A fit takes none of them.
    const DeviceProfile device =
        load_device_profile("rtx-3090-24gb", environment().profile_folders);
    const std::vector<std::string> profiles{"rtx-3090-24gb"};
    const auto calibrated = [&](double measured) {
      const std::vector<MeasuredTable> tables{
          kernels_of(table_of(scenario, measured), environment(), 1)};
      return calibrate(device, tables, profiles, {.held_out = 0}).rows;
    };
    CHECK(calibrated(seconds / 2) == 1);
    CHECK_THROWS_AS(static_cast<void>(calibrated(seconds / 1000)), UserError);
  }
}

}  // namespace tidemark::step_kernels_test
