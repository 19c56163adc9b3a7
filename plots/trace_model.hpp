// A run as the events that trace viewers show: slices on tracks, flows between them, counters of
// memory and lifetimes of tensors. Times count from the beginning of the run.
//
//   host      |op|op|op|                         dispatch of each kernel and copy
//   compute   [step 0 [forward |k| |k|k| ][backward |k|k| |k| ]]
//   d2h             |copy|   \ flow: copy out -> copy in -> use
//   h2d                     |copy|
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/analysis/program_order.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/result/timeline.hpp"

namespace tidemark {

// The interval in which one kernel or copy ran.
struct TraceSlice {
  std::uint32_t instruction = 0;
  Stream stream = Stream::kCompute;
  Opcode opcode = Opcode::kLaunch;
  Phase phase = Phase::kForward;
  bool recompute = false;
  int step = 0;
  OperatorId op;            // operator that runs, or that a copy serves
  AllocationId allocation;  // allocation on the device that a copy moves
  Duration begin{};
  Duration end{};  // not before `begin`; equal where the device charges nothing
  // Compute time right before `begin` that went into operators recomputed for evicted allocations.
  Duration restored{};
  Duration host_begin{};  // begin of its dispatch
  Duration host_end{};
};

enum class FlowKind : std::uint8_t {
  kRecompute,  // from the forward operator to its recomputation
  kFetch,      // from the copy out to the copy back in
  kUse,        // from the copy in to the first operator that touches what it brought
};
[[nodiscard]] constexpr std::string_view name_of(FlowKind kind) {
  constexpr std::string_view kNames[] = {"recompute", "fetch", "use"};
  return kNames[static_cast<int>(kind)];
}
struct TraceFlow {
  FlowKind kind = FlowKind::kRecompute;
  std::size_t from = 0;  // slice
  std::size_t to = 0;    // slice; begins no earlier
};

// A part of the step on the compute stream; steps enclose phases.
struct TraceSpan {
  int step = 0;
  bool whole_step = false;
  Phase phase = Phase::kForward;
  Duration begin{};
  Duration end{};
};

struct TraceCounter {
  Duration time{};
  BytesByRole by_role{};  // live bytes
  Bytes live;
  Bytes reserved;
};

struct TraceLifetime {
  AllocationId allocation;
  Duration begin{};
  Duration end{};
};

struct TraceModel {
  std::vector<TraceSlice> slices;  // slices in issue order: begins ascend on each stream
  std::vector<TraceFlow> flows;
  std::vector<TraceSpan> spans;  // each step before its phases
  // Times ascend; of one instant the highest and the last state.
  std::vector<TraceCounter> counters;
  std::vector<TraceLifetime> lifetimes;  // lifetimes of device allocations, by their beginning
};

[[nodiscard]] TraceModel trace_model(const TrainingGraph& graph, const ProgramOrder& order,
                                     const StepProgram& program, const CostTable& costs,
                                     const Scratch& scratch, const MemoryTimeline& timeline);

// Returns for example "h.3.mlp.linear.output", "cuBLAS workspace", "workspace".
[[nodiscard]] std::string_view allocation_name(const TrainingGraph& graph,
                                               const StepProgram& program, AllocationId allocation);

}  // namespace tidemark
