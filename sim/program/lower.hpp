// Lowers an order and the decisions about its gaps to instructions. This is the only writer of
// copies, frees and edges between streams.
#pragma once

#include <span>
#include <vector>

#include "graph/analysis/liveness.hpp"
#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "policies/plan/residency_plan.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Returns the order with every recompute group of `plan` inserted before the first touch that needs
// it. A group is refused (and counted) when recomputation would read other content than the first
// time: an input was overwritten since, or its recipe changes persistent memory. Outcomes in `plan`
// are updated.
[[nodiscard]] ProgramOrder insert_recomputation(const TrainingGraph& graph,
                                                const ProgramOrder& order, const Liveness& live,
                                                ResidencyPlan& plan);

// Whether an operator brings a parameter together from its shards: done again, that is no
// recomputation of the model.
[[nodiscard]] bool gathers(const TrainingGraph& graph, OperatorId op);

// Workspaces that a device's libraries take from the allocator for themselves.
struct LibraryWorkspaces {
  Bytes matmul;            // allocated at the first matrix product, and kept
  double convolution = 1;  // factor on the workspaces that the graph's convolutions ask for
};

// Returns the instructions of `order`. Decisions other than Offload are ignored here: recomputation
// is in the order already. Operators run on the compute stream or, if the host executes them, on
// its worker; copies run on their own streams. A step ends when the host's updates have arrived.
[[nodiscard]] StepProgram lower(const TrainingGraph& graph, const ProgramOrder& order,
                                const Liveness& live, const IdVector<GapId, Decision>& decisions,
                                const LibraryWorkspaces& libraries = {},
                                std::span<const Throttle> throttles = {});

}  // namespace tidemark
