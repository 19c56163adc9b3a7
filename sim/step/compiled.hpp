// A step as a verified program, ready to run.
#pragma once

#include <optional>
#include <vector>

#include "graph/analysis/program_order.hpp"
#include "policies/plan/eviction.hpp"
#include "policies/plan/residency_plan.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/engine/scratch.hpp"
#include "sim/memory/packing/packed_allocator.hpp"
#include "sim/program/saved_tensors.hpp"
#include "sim/program/step_program.hpp"
#include "sim/step/run_pass.hpp"

namespace tidemark {

// The order of a policy that orders for the whole device, and the memory it leaves for the
// allocator.
struct DeviceOrder {
  // Device memory that the order leaves free, since allocators take more than what is live.
  Bytes held_back;
  // The place, among the policies that may stand in for it, of the one whose order it is; none
  // where it is its own.
  std::optional<std::size_t> stand_in = {};
};

struct Compiled {
  ProgramOrder order;  // the order with its recomputation
  StepProgram program;
  CostTable costs;
  std::vector<PolicyOutcome> policies;  // outcomes in the order in which the policies are listed
  std::vector<PolicyOutcome> smaller_budget;  // outcomes that they started from; empty: none
  std::optional<DeviceOrder> device_order;    // none where no policy orders for the whole device
  const EvictionPolicy* eviction = nullptr;   // owned by the StepSpec
  PackedPlacement placement;                  // filled for the allocator `packed` only
  std::vector<SavedTensor> saved;             // tensors of one micro-batch, after policies
  // The values that a pipeline's stage receives, and when, in a run of all stages: with them the
  // stage runs alone as it does among the others.
  std::vector<Arrival> arrivals;
  // The programs of all stages of a pipeline, in place of a program of its own.
  std::vector<Compiled> stages;
  std::vector<PassTime> passes;
};

}  // namespace tidemark
