// Chen's policies on cost graphs: keep some forward values, recompute the rest in backward.
//
// Forward nodes are those before the first backward node. A value that is not kept is freed after
// its last reader there (the loss has none). When a later node needs a freed value, everything
// missing among its ancestors is computed in ascending order; values that backward nodes still read
// then stay.
#pragma once

#include <vector>

#include "policies/remat/problem.hpp"

namespace tidemark {

// The most computations of a schedule of these policies. Where backward reads few values of a long
// forward, each of which needs most of it again, schedules grow with the square of the graph.
inline constexpr std::size_t kMostComputations = 10'000'000;

// Returns the schedule that keeps the marked nodes; nodes that are not forward are always kept.
// Empty where it has more than kMostComputations.
[[nodiscard]] Schedule keep_schedule(const RematProblem& problem, const std::vector<bool>& kept);

// Returns the schedule that keeps the checkpoints (forward nodes, ascending). The first time that a
// backward node needs a value of a segment between them, the whole segment is recomputed, as
// torch.utils.checkpoint does, with the missing ancestors of its nodes. A node that only backward
// reads belongs to the segment that makes it. Empty where it has more than kMostComputations.
[[nodiscard]] Schedule segment_schedule(const RematProblem& problem,
                                        const std::vector<NodeIndex>& checkpoints);
// Returns the candidates period - 1, 2 period - 1, ...
[[nodiscard]] std::vector<NodeIndex> every(const std::vector<NodeIndex>& candidates,
                                           std::int64_t period);

// Returns the candidates for checkpoints, ascending.
[[nodiscard]] std::vector<NodeIndex> forward_nodes(const RematProblem& problem);
// Returns the forward nodes, the last excepted, that every path from the network's input to its
// output passes: articulation points of the forward graph between the two, without nodes off the
// main path.
[[nodiscard]] std::vector<NodeIndex> articulation_nodes(const RematProblem& problem);

// Returns for each repeated block the last forward node that nodes after the block read (nodes that
// only backward reads, such as a dropout's mask, may follow it), or else its last forward node;
// none where the graph has no blocks.
[[nodiscard]] std::vector<NodeIndex> passed_on_outputs(const RematProblem& problem);

// Returns every k-th candidate, k = floor(sqrt(candidates)).
[[nodiscard]] std::vector<NodeIndex> chen_sqrt_checkpoints(
    const std::vector<NodeIndex>& candidates);
// Returns the thresholds b of Chen's algorithm 3 that make a difference, sums of consecutive bytes,
// or a sample of them for graphs with many. Any number of them from the beginning is spread evenly
// over all.
[[nodiscard]] std::vector<std::int64_t> chen_greedy_thresholds(const RematProblem& problem);
// Chen's algorithm 3: it walks the forward nodes and adds up their bytes; a candidate at which the
// sum exceeds the threshold is kept and the sum begins anew.
[[nodiscard]] std::vector<NodeIndex> chen_greedy_checkpoints(
    const RematProblem& problem, const std::vector<NodeIndex>& candidates, std::int64_t threshold);

}  // namespace tidemark
