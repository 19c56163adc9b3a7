// A run with everything that a page shows of it.
#pragma once

#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/allocators/address_layout.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/result/timeline.hpp"

namespace tidemark {

// A run with its events; everything is of one and the same run and outlives the call.
struct ReportedRun {
  const TrainingGraph& graph;
  const ProgramOrder& order;
  const StepProgram& program;
  const CostTable& costs;
  const Scratch& scratch;
  const MemoryTimeline& timeline;
  const AddressLayout* layout = nullptr;  // none: without addresses
};

}  // namespace tidemark
