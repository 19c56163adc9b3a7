// One point of a scenario, simulated: everything that reports and the result document show.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/compile.hpp"
#include "scenarios/run_compiled.hpp"
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

// A tensor that keeps a partly free segment from going back to the device.
struct PinningTensor {
  std::string tensor;
  std::int64_t bytes = 0;
  Role role = Role::kTemporary;
  std::string layer;
};
struct PartlyFreeSegment {
  std::int64_t size = 0;
  std::int64_t free = 0;
  std::int64_t largest_free = 0;
  std::size_t pin_count = 0;
  std::vector<PinningTensor> pins;  // largest first, at most kShownPins
};
inline constexpr std::size_t kShownPins = 16;

// A change to the scenario, simulated.
struct Suggestion {
  std::string change;                                          // in words
  std::vector<std::pair<std::string, std::string>> overrides;  // key, value as JSON
  bool fits = false;
  std::int64_t device_used = 0;
  std::int64_t peak_live = 0;
  std::int64_t peak_reserved = 0;
  Duration step{};
};

struct Failure {
  int step = 0;
  Phase phase = Phase::kForward;
  std::string op;
  std::string layer;
  std::int64_t requested = 0;
  std::string message;  // PyTorch's own, word for word, where its allocator has failed
  std::string reason;   // what was asked for where, and what there was
  // Of the device's allocator at that moment.
  std::int64_t rounded = 0;
  std::int64_t segment = 0;  // bytes asked of the device for it
  std::int64_t device_free = 0;
  std::int64_t short_of = 0;            // bytes that host memory or NVMe lack for the whole run
  std::optional<std::int64_t> allowed;  // to be reserved, by memory_fraction
  std::int64_t largest_free = 0;
  std::int64_t free_in_segments = 0;
  std::vector<PartlyFreeSegment> partly_free;  // most free bytes first
  // What was tried to make it fit, least intrusive first; see suggest_changes().
  std::vector<Suggestion> tried;
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
  Bytes context;   // that the framework takes of it: CUDA's, with several ranks NCCL's buffers too
  int ranks = 1;   // data-parallel, one device each
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
  Bytes nvme_capacity;
  BytesByRole host_by_role{};  // at the peak of pinned memory

  RunResult run;
  Convergence convergence;
  PeakReport peak;
  Phase phase_without_workspace = Phase::kForward;  // of run.live_without_workspace
  std::vector<PolicyOutcome> policies;
  // By policy: live bytes that the scenario gives it to stay within; see Budgeted.
  std::vector<std::optional<Bytes>> budgets;
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
  // Steps to run at most until what is reserved repeats; 0: the scenario's own must show it.
  int convergence_limit = 0;
  bool suggestions = false;  // of changes; for callers that have the document
  std::size_t largest_tensors = 10;
};
// Long enough for most: the first step creates the optimizer's state, the next ones reuse its
// holes.
inline constexpr int kConvergenceLimit = 8;

// Runs one point. `detail`, if given, is filled for charts.
[[nodiscard]] PointResult simulate(const Scenario& scenario, const TrainedModel& model,
                                   const SimulateOptions& options, PointDetail* detail = nullptr);
// The same with a program that is compiled already, for this scenario or for one that differs in
// its allocator only.
[[nodiscard]] PointResult simulate(const Scenario& scenario, const TrainedModel& model,
                                   Compiled compiled, const SimulateOptions& options,
                                   PointDetail* detail = nullptr);

// The document as a point of its sweep has it, without `sweep`.
struct PointDocument {
  Value document;
  std::vector<Override> overrides;
  std::string error;  // why an override cannot be applied; empty if all are
};
[[nodiscard]] std::vector<PointDocument> point_documents(const Value& document);

// What a caller hears of while points are simulated, from their threads, one call at a time.
struct PointsListener {
  std::function<void(std::size_t done, std::size_t total)> progress;
  std::function<void(std::size_t index, const PointResult&)> finished;
};

// Points of a document, on `threads` threads over shared models; a point that fails is a row with
// its reason. The order of the result does not depend on the threads. `wanted`: by point of the
// sweep; empty: all. What is not wanted has no name and no figures, but may be simulated for the
// sake of another (see smaller_budget.hpp).
[[nodiscard]] std::vector<PointResult> simulate_points(const Value& document,
                                                       const Environment& environment, int threads,
                                                       const SimulateOptions& options,
                                                       const PointsListener& listener = {},
                                                       const std::vector<bool>& wanted = {});

}  // namespace tidemark
