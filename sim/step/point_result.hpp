// One step, simulated: everything that reports and the result document show.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/core/units.hpp"
#include "graph/ir/tensor.hpp"
#include "graph/ir/training_graph.hpp"
#include "hwprofiles/communicators.hpp"
#include "hwprofiles/mesh.hpp"
#include "policies/plan/residency_plan.hpp"
#include "sim/engine/engine.hpp"
#include "sim/result/communication.hpp"
#include "sim/result/generation.hpp"
#include "sim/result/time_breakdown.hpp"
#include "sim/result/timeline.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/convergence.hpp"
#include "sim/step/override.hpp"
#include "sim/step/run_pass.hpp"
#include "sim/step/step_cost.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

enum class PointStatus { kFits, kOutOfMemory, kInfeasible, kError };
[[nodiscard]] constexpr std::string_view name_of(PointStatus status) {
  constexpr std::string_view kNames[] = {"fits", "out_of_memory", "infeasible", "error"};
  return kNames[static_cast<int>(status)];
}

// Returns the status of a point whose reported run ended so.
[[nodiscard]] constexpr PointStatus point_status(RunStatus status) {
  switch (status) {
    case RunStatus::kCompleted:
      return PointStatus::kFits;
    case RunStatus::kOutOfMemory:
    case RunStatus::kOutOfHostMemory:
    case RunStatus::kOutOfNvme:
      return PointStatus::kOutOfMemory;
    case RunStatus::kDeadlock:
    case RunStatus::kPeerFailed:
    case RunStatus::kThrash:
      return PointStatus::kInfeasible;
  }
  return PointStatus::kError;
}

struct LargestTensor {
  std::string tensor;
  Bytes bytes;
  Role role = Role::kTemporary;
  std::string op;  // the operator that made it; empty when it exists from the start
  std::string layer;
};

// Layers that a document of many points names at each peak; all of them are too many.
inline constexpr std::size_t kLargestLayers = 10;

struct PeakReport {
  int step = 0;
  Phase phase = Phase::kForward;
  std::string op;  // the operator that was being prepared
  std::string layer;
  Duration time{};        // time since the step began
  BytesByRole by_role{};  // sums to the live bytes at the peak
  // Largest first; what is in no layer by what it is, as "loss" or "inputs", "" where unknown. Of a
  // point that was read from a document only the largest.
  std::vector<std::pair<std::string, Bytes>> by_layer;
  std::vector<LargestTensor> largest;
};

// A tensor that keeps a partly free segment from going back to the device.
struct TensorInUse {
  std::string tensor;
  Bytes bytes;
  Role role = Role::kTemporary;
  std::string layer;
};
struct PartlyFreeSegment {
  Bytes size;
  Bytes free;
  Bytes largest_free;
  std::size_t in_use_count = 0;
  std::vector<TensorInUse> in_use;  // largest first, at most kShownInUse
};
inline constexpr std::size_t kShownInUse = 16;

// A change to the step, and the result of simulating it.
struct Suggestion {
  std::string change;  // the change in words
  std::vector<Override> overrides;
  bool changes_numbers = false;           // training computes other numbers with it
  std::vector<std::string> pytorch;       // lines of PyTorch, or of a library, that do the same
  std::vector<std::string> hugging_face;  // arguments of Hugging Face's trainers that do
  bool fits = false;
  RunStatus status = RunStatus::kCompleted;  // says what was missing where it does not fit
  Bytes device_used;
  Bytes peak_live;
  Bytes peak_reserved;
  Duration step{};
  double samples_per_second = 0;
  double tokens_per_second = 0;
};

struct Failure {
  int step = 0;
  Phase phase = Phase::kForward;
  std::string op;
  std::string layer;
  Bytes requested;
  std::string message;  // PyTorch's own message, word for word, where its allocator has failed
  std::string reason;   // the request that failed, its place, and the memory that there was
  // Figures of the device's allocator at that moment.
  Bytes rounded;
  Bytes segment;  // bytes asked of the device for it
  Bytes device_free;
  Bytes short_of;                // bytes missing in host memory or NVMe for the whole run
  std::optional<Bytes> allowed;  // most that memory_fraction allows to reserve
  Bytes largest_free;
  Bytes free_in_segments;
  std::vector<PartlyFreeSegment> partly_free;  // most free bytes first
  // Changes that were tried to make it fit: those that do, fastest first, then the others; see
  // suggest_changes().
  std::vector<Suggestion> tried;
};

struct StageResult;

struct PointResult {
  std::string name;
  std::vector<Override> overrides;  // overrides that distinguish the point
  PointStatus status = PointStatus::kError;
  std::string error;                  // the reason why a point could not be built
  std::vector<std::string> warnings;  // choices that a user may not have meant, a sentence each

  // Parameters of the model as one rank holds it; filled whenever it could be built.
  Elements parameter_count;
  Elements trainable_parameter_count;
  std::size_t operators = 0;
  std::size_t tensors = 0;
  Flops forward_flops;
  Flops step_flops;
  Bytes capacity;  // capacity of the device
  Bytes context;   // process overhead on it: CUDA's context, with several ranks NCCL's buffers too
  // The part of it that NCCL takes, by communicator.
  std::vector<Communicator> communicators;
  int ranks = 1;  // data-parallel ranks, one device each
  Mesh mesh;      // mesh of the data-parallel ranks
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer_state;
  Bytes buffers;
  Bytes inputs;
  Bytes saved_activations;
  Bytes smallest_capacity;  // least device capacity with which the same program fits; 0: unknown
  AllocatorTraits allocator = ideal_traits();
  Bytes host_capacity;
  Bytes nvme_capacity;
  BytesByRole host_by_role{};  // bytes at the peak of page-locked memory

  RunResult run;  // its step includes `loader_stall`
  std::optional<LoaderFigures> loader;
  std::optional<LoadFigures> load;
  Duration loader_stall{};                   // time for which each step waits for data
  std::vector<Communication> communication;  // communication of the last step
  Duration dequantise{};  // kernels of the last step that make weights from their codes
  std::optional<GenerationFigures> generation;
  Convergence convergence;
  PeakReport peak;
  Phase phase_without_workspace = Phase::kForward;  // the phase of run.live_without_workspace
  std::vector<PolicyOutcome> policies;
  // Live bytes that each policy is to stay within, in the order of `policies`; see Policy::budget.
  std::vector<std::optional<Bytes>> budgets;
  std::optional<Failure> failure;  // present for a point that does not fit
  double samples = 0;              // samples of one step, on all ranks
  double tokens = 0;
  double samples_per_second = 0;
  double tokens_per_second = 0;
  double model_flops_utilization = 0;     // model flops of a step / (time * peak of the precision)
  double hardware_flops_utilization = 0;  // the same with what is recomputed
  TimeBreakdown breakdown;                // time of the last step
  StepCost cost;
  std::vector<PassTime> passes;
  // All stages of a pipeline, in their order; the point's own figures are those of one of them.
  std::vector<StageResult> stages;

  // Device memory that the whole step takes, process overhead included.
  [[nodiscard]] Bytes device_used() const { return context + run.reserved.bytes; }
  // Device memory that the step needs. A step that does not fit was run without a limit: bfc takes
  // regions that double then, which says nothing about the device that would suffice.
  [[nodiscard]] Bytes device_needed() const {
    const bool doubles = allocator.grows_by_doubling && status == PointStatus::kOutOfMemory &&
                         smallest_capacity.count > 0;
    return doubles ? smallest_capacity : device_used();
  }
  // The least device capacity that suffices, where it is known; else what the step used.
  [[nodiscard]] Bytes device_that_does() const {
    return smallest_capacity.count > 0 ? smallest_capacity : device_used();
  }
  // Memory of the device that is left for the allocator.
  [[nodiscard]] Bytes usable() const { return capacity - context; }
  // Parameters, gradients and optimizer state, as one rank holds them.
  [[nodiscard]] Bytes model_bytes() const { return parameters + gradients + optimizer_state; }
};

// A part of a stage's work in the last step, from its first kernel to the end of its last. Times
// count from the pipeline's first forward.
struct StagePart {
  StageWork work = StageWork::kForward;
  int micro_batch = 0;
  int chunk = 0;
  Duration begin{};
  Duration end{};
};

// One stage of a pipeline.
struct StageResult {
  int stage = 0;
  std::vector<StageBlocks> chunks;  // blocks of the model, by chunk
  std::string order;                // "F0 F1 B0 ...", with chunks "F0.0 F0.1 B0.1 ..."
  int in_flight = 0;                // most forwards without their backward
  // Share of the time in which the stage computes nothing, from the pipeline's first forward to its
  // last backward in the last step.
  double bubble = 0;
  // Both are empty where the result was read from a file.
  std::vector<StagePart> parts;                     // in order
  std::vector<CommunicationStretch> communication;  // in order within each group
  PointResult point;
};

}  // namespace tidemark
