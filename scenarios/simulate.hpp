// One point of a scenario, simulated: everything that reports and the result document show.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "scenarios/compile.hpp"
#include "sim/result/timeline.hpp"

namespace tidemark {

enum class PointStatus { kFits, kOutOfMemory, kInfeasible, kError };
[[nodiscard]] constexpr std::string_view name_of(PointStatus status) {
  constexpr std::string_view kNames[] = {"fits", "out_of_memory", "infeasible", "error"};
  return kNames[static_cast<int>(status)];
}

struct LargestTensor {
  std::string tensor;
  std::int64_t bytes = 0;
  Role role = Role::kTemporary;
  std::string op;  // that made it; empty when it exists from the start
  std::string layer;
};

struct PeakReport {
  int step = 0;
  Phase phase = Phase::kForward;
  std::string op;  // that was being prepared
  std::string layer;
  Duration time{};                                             // since the step began
  BytesByRole by_role{};                                       // sums to the live bytes at the peak
  std::vector<std::pair<std::string, std::int64_t>> by_layer;  // largest first; "" is no layer
  std::vector<LargestTensor> largest;
};

struct Failure {
  int step = 0;
  Phase phase = Phase::kForward;
  std::string op;
  std::string layer;
  std::int64_t requested = 0;
  std::string message;
};

struct PointResult {
  std::string name;
  std::vector<std::pair<std::string, std::string>> overrides;  // key, value as JSON
  PointStatus status = PointStatus::kError;
  std::string error;  // of a point that could not be built

  // The model as one rank holds it; filled whenever it could be built.
  std::int64_t parameter_count = 0;
  std::int64_t trainable_parameter_count = 0;
  std::size_t operators = 0;
  std::size_t tensors = 0;
  Flops forward_flops;
  Flops step_flops;
  Bytes capacity;  // of the device
  Bytes context;   // that the framework takes of it
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer_state;
  Bytes buffers;
  Bytes inputs;
  Bytes saved_activations;
  std::int64_t smallest_capacity =
      0;  // of the device, with which the same program fits; 0: unknown
  AllocatorKind allocator = AllocatorKind::kIdeal;
  Bytes host_capacity;

  RunResult run;
  PeakReport peak;
  Phase phase_without_workspace = Phase::kForward;  // of run.live_without_workspace
  std::vector<PolicyOutcome> policies;
  std::vector<Failure> failure;  // none or one
  double samples_per_second = 0;
  double tokens_per_second = 0;
  double model_flops_utilization = 0;  // model flops of a step / (time * peak of the precision)
  std::vector<PassTime> passes;
};

// What charts and `explain` need beside the figures. The timeline covers the last step.
struct PointDetail {
  std::shared_ptr<const TrainedModel> model;
  Compiled compiled;
  Scratch scratch;
  MemoryTimeline timeline;
};

struct SimulateOptions {
  bool smallest_capacity = true;
  std::size_t largest_tensors = 10;
};

// Runs one point. `detail`, if given, is filled for charts.
[[nodiscard]] PointResult simulate(const Scenario& scenario, const TrainedModel& model,
                                   const SimulateOptions& options, PointDetail* detail = nullptr);

// All points of a document, on `threads` threads over shared models; a point that fails is a row
// with its reason. The order of the result does not depend on the threads. `progress`, if given, is
// called with (done, total) from the calling thread's pool, one call at a time.
[[nodiscard]] std::vector<PointResult> simulate_points(
    const Value& document, const Environment& environment, int threads,
    const SimulateOptions& options,
    const std::function<void(std::size_t, std::size_t)>& progress = {});

}  // namespace tidemark
