// From a scenario to a verified step program: the way data flows, once through.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/analysis/liveness.hpp"
#include "graph/import/cost_graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/residency_plan.hpp"
#include "scenarios/pass_time.hpp"
#include "scenarios/read/scenario.hpp"
#include "scenarios/saved_tensors.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/memory/packing/packed_allocator.hpp"
#include "sim/program/lower.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// What a scenario's model, training, precision and rewrites make: immutable, shared by all points
// that agree on them.
struct TrainedModel {
  TrainingGraph training;
  Bytes parameters;  // as held persistently by one rank
  Bytes buffers;
  Bytes inputs;
  Bytes gradients;
  Bytes optimizer_state;
  Flops forward_flops;  // of one micro-batch
  Flops step_flops;     // of all micro-batches, without recomputation; forward and backward
  std::vector<PassTime> passes;
};
[[nodiscard]] TrainedModel build_training(const Scenario& scenario);

// Scenarios with equal keys build equal TrainedModels; `scenario` is `document` decoded.
[[nodiscard]] std::string training_key(const Value& document, const Scenario& scenario);

struct Compiled {
  ProgramOrder order;  // with repeats
  StepProgram program;
  CostTable costs;
  std::vector<PolicyOutcome> policies;        // as listed in the scenario
  std::vector<PolicyOutcome> smaller_budget;  // that they were told of; empty: none
  EvictionPolicy* eviction = nullptr;         // owned by the scenario
  PackedPlacement placement;                  // with `allocator: packed` only
  std::vector<SavedTensor> saved;             // of one micro-batch, after policies
  std::vector<PassTime> passes;
};

// What the device's libraries take of their own under the scenario's framework.
[[nodiscard]] LibraryWorkspaces libraries_of(const Scenario& scenario);
// The scenario's device, its framework's figures those of libraries_of().
[[nodiscard]] DeviceProfile device_of(const Scenario& scenario);
// One micro-batch of the scenario's model on its device, as solvers of checkpoint placement see it.
[[nodiscard]] CostGraph cost_graph_of(const Scenario& scenario, const TrainingGraph& graph);

// Orders, plans, lowers and verifies. Throws InternalError when verification fails. `steps` instead
// of those of the scenario, if given. `smaller_budget`: what the same policies of the same model
// decided with less memory, or null.
[[nodiscard]] Compiled compile(const Scenario& scenario, const TrainedModel& model,
                               std::optional<int> steps = std::nullopt,
                               const std::vector<PolicyOutcome>* smaller_budget = nullptr);

}  // namespace tidemark
