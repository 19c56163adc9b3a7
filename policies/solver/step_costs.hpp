// A micro-batch of a training graph as a cost graph: the nodes that a solver of checkpoint
// placement may recompute, their costs and the bytes that they free.
//
// A node is an operator, with the bytes of all its results together: they are kept or dropped as
// one. Views share the storage of what they view. Results are split off into nodes of no cost:
//   - If a node that runs once has results that stay after the micro-batch (gradients of
//     parameters), these are a node of their own behind it.
//   - If some results are read for the last time long before the others (a dropout's result and its
//     mask, what a batch norm makes and its statistics), those that outlive them are a node behind
//     their last reader, part of the one it reads.
// So the peak of a schedule is never less than what its program takes, and equal to it unless the
// results of an operator at the peak end at different times and were not split before.
// Besides:
//   - In forward, an operator in place belongs to the node that makes the storage, if nothing looks
//     at the content in between. After a convolution batch norm and relu_ are recomputed as one:
//       bn creates s    update reads mean, var    relu_ changes s      ->   {bn, relu_}, {update}
//   - Operators that change persistent memory (running statistics, gradients) run once. So do those
//     that change or read a content that is freed later and cannot be had again by such a group:
//     sums of gradients in place. Random state is versioned, so that dropout may be recomputed.
//   - Memory that is there before the micro-batch and after it is the graph's fixed bytes:
//     parameters, buffers, inputs, optimizer state, and gradients where the micro-batch adds to
//     those of others. The workspace that the matrix products' library keeps is fixed, too.
//     Gradients that the micro-batch makes itself are read by a last node of no cost, as are values
//     that are read later.
//   - Values whose home is off device (offload_parameters) are there only around their readers:
//     while a node computes, as much as `visitors` says. The times depend on the schedule, so its
//     peak may be less or more than what its program takes, by what is fetched earlier or later.
//   - A convolution's workspace is scaled as `libraries` says.
//   - A value that a variable or autograd holds counts as read by the operator that ends the hold.
#pragma once

#include <span>
#include <vector>

#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"
#include "graph/import/cost_graph.hpp"
#include "graph/ir/training_graph.hpp"
#include "hwprofiles/device_profile.hpp"

namespace tidemark {

struct StepCosts {
  CostGraph graph;  // costs in nanoseconds; nodes in a topological order close to the program's
  // Each node runs these operators, in order; empty for nodes that only end or order others.
  IdVector<CostNodeId, std::vector<OperatorId>> operators;
};

// Returns the bytes of workspace while the operator runs, a convolution's scaled as `libraries`
// says.
[[nodiscard]] Bytes workspace_of(const Operator& op, const FrameworkProfile& libraries);

// Returns forward and then the backward that most micro-batches run: with several, the one that
// adds to gradients.
[[nodiscard]] std::vector<OperatorId> micro_batch_of(const TrainingGraph& graph);

// Builds the cost graph of `micro_batch`: forward and then backward (or backward_accumulate), as
// they run once. With `any_order`, nodes of no cost keep readers of a content before its next
// change even where nothing else does; without, the order of the list has to be kept. `visitors`,
// by operator of the list: bytes whose home is off device and that are on it while the operator
// runs; empty: what the run of operators of its block and phase touches, and, fetched ahead, the
// next such run.
[[nodiscard]] StepCosts step_costs(const TrainingGraph& graph,
                                   std::span<const OperatorId> micro_batch,
                                   const IdVector<OperatorId, Duration>& durations, bool any_order,
                                   const FrameworkProfile& libraries = {.cudnn_filter_copies = 1},
                                   std::vector<Bytes> visitors = {});

}  // namespace tidemark
