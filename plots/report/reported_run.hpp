// A run with everything that a page shows about it.
#pragma once

#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/allocators/address_layout.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/result/timeline.hpp"

namespace tidemark {

// A run with its events; all members belong to one run and outlive the call.
struct ReportedRun {
  const TrainingGraph& graph;
  const ProgramOrder& order;
  const StepProgram& program;
  const CostTable& costs;
  const Scratch& scratch;
  const MemoryTimeline& timeline;
  const AddressLayout* layout = nullptr;  // null for allocators without addresses
};

}  // namespace tidemark
