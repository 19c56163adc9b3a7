// A run with everything that a page shows of it.
#pragma once

#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/memory/bfc_allocator.hpp"
#include "sim/memory/packing/packed_allocator.hpp"
#include "sim/memory/torch/torch_recorder.hpp"
#include "sim/result/timeline.hpp"

namespace tidemark {

// The arguments of the BFC allocator of a run.
struct BfcLimits {
  Bytes capacity;
  BfcOptions options;
};

// A run with its events; everything is of one and the same run and outlives the call.
struct ReportedRun {
  const TrainingGraph& graph;
  const ProgramOrder& order;
  const StepProgram& program;
  const CostTable& costs;
  const Scratch& scratch;
  const MemoryTimeline& timeline;
  // The source of addresses: one of these, or none with allocators that have no addresses.
  const TorchRecorder* recorder = nullptr;
  const BfcLimits* bfc = nullptr;
  const PackedPlacement* placement = nullptr;
};

}  // namespace tidemark
