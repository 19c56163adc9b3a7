// A step as a verified program, ready to run.
#pragma once

#include <vector>

#include "graph/analysis/program_order.hpp"
#include "policies/plan/eviction.hpp"
#include "policies/plan/residency_plan.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/memory/packing/packed_allocator.hpp"
#include "sim/program/step_program.hpp"
#include "sim/step/run_pass.hpp"
#include "sim/step/saved_tensors.hpp"

namespace tidemark {

struct Compiled {
  ProgramOrder order;  // with repeats
  StepProgram program;
  CostTable costs;
  std::vector<PolicyOutcome> policies;        // as listed
  std::vector<PolicyOutcome> smaller_budget;  // that they started from; empty: none
  EvictionPolicy* eviction = nullptr;         // owned by the StepSpec
  PackedPlacement placement;                  // of the allocator `packed` only
  std::vector<SavedTensor> saved;             // of one micro-batch, after policies
  std::vector<PassTime> passes;
};

}  // namespace tidemark
