// A micro-batch of a training graph as a cost graph: what a solver of checkpoint placement may
// compute again, what that costs and how many bytes it frees.
//
// A node is an operator, with the bytes of all its results together: they are kept or dropped as
// one. Views share the storage of what they view. Nodes of no cost part results:
//   - Of what runs once, results that stay after the micro-batch (gradients of parameters) are a
//     node of their own behind it.
//   - Where some results are read for the last time long before the others (a dropout's result and
//     its mask, what a batch norm makes and its statistics), what outlives them is a node behind
//     their last reader, part of the one it reads.
// So the peak of a schedule is never less than what its program takes, and equal to it where the
// results of no operator at the peak end at different times, or only such that are parted before.
// Beside that:
//   - In forward, an operator in place belongs to the node that makes the storage, if nothing looks
//     at the content in between: convolution, batch norm and relu_ run again as batch norm + relu_.
//       bn creates s    update reads mean, var    relu_ changes s      ->   {bn, relu_}, {update}
//   - What changes persistent memory (running statistics, gradients) runs once. So does what
//     changes or reads a content that is gone later and cannot be had again by such a group: sums
//     of gradients in place. Random state is versioned, so that dropout may run again.
//   - Memory that is there before the micro-batch and after it is the graph's fixed bytes:
//     parameters, buffers, inputs, optimizer state, and gradients where the micro-batch adds to
//     those of others. Gradients that it makes itself are read by a last node of no cost, as is
//     what runs later.
//   - What lives elsewhere (offload_parameters) is there only around its readers: while a node
//     computes, as much as `visitors` says. When that is depends on the schedule, so the peak of
//     one may be less or more than what its program takes, by what is fetched earlier or later
//     there.
//   - So is the workspace that the matrix products' library keeps, and a convolution's is scaled as
//     `libraries` says.
//   - What a variable or autograd holds counts as read by the operator that ends the hold.
#pragma once

#include <cstdint>
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
  // By node, what computing it runs, in order; empty for nodes that only end or order others.
  IdVector<CostNodeId, std::vector<OperatorId>> operators;
};

// Bytes while the operator runs, a convolution's scaled as `libraries` says.
[[nodiscard]] std::int64_t workspace_of(const Operator& op, const FrameworkProfile& libraries);

// Forward and then the backward that most micro-batches run: with several, that which adds to
// gradients.
[[nodiscard]] std::vector<OperatorId> micro_batch_of(const TrainingGraph& graph);

// `micro_batch` is forward and then backward (or backward_accumulate), as they run once. With
// `any_order`, nodes of no cost keep readers of a content before what changes it even where nothing
// else does; without, the order of the list has to be kept. `visitors`, by operator of the list:
// bytes that live elsewhere and are there while it runs; empty: what the run of operators of its
// block and phase touches, and, fetched ahead, the next such run.
[[nodiscard]] StepCosts step_costs(const TrainingGraph& graph,
                                   std::span<const OperatorId> micro_batch,
                                   const IdVector<OperatorId, Duration>& durations, bool any_order,
                                   const FrameworkProfile& libraries = {.cudnn_filter_copies = 1},
                                   std::vector<std::int64_t> visitors = {});

}  // namespace tidemark
