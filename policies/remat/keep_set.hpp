// Chen's policies on cost graphs: keep some forward values, compute the rest again in backward.
//
// Forward nodes are those before the first backward node. What is not kept goes after its last
// reader there (the loss has none). When a later node needs a value that is gone, what is missing
// of all it comes from is computed in ascending order; what backward nodes still read then stays.
#pragma once

#include <vector>

#include "policies/remat/problem.hpp"

namespace tidemark {

// By node whether it is kept; what is no forward node always is.
[[nodiscard]] Schedule keep_schedule(const RematProblem& problem, const std::vector<bool>& kept);

// The checkpoints (forward nodes, ascending) are kept; the first time that a backward node needs a
// value of a segment between, the whole segment runs again, as torch.utils.checkpoint does, with
// what is missing of all it comes from. What only backward reads is of the segment that makes it.
[[nodiscard]] Schedule segment_schedule(const RematProblem& problem,
                                        const std::vector<NodeIndex>& checkpoints);
// Candidates period - 1, 2 period - 1, ...
[[nodiscard]] std::vector<NodeIndex> every(const std::vector<NodeIndex>& candidates,
                                           std::int64_t period);

// Candidates for checkpoints, ascending.
[[nodiscard]] std::vector<NodeIndex> forward_nodes(const RematProblem& problem);
// Forward nodes, the last excepted, that every way from the network's input to its output passes:
// articulation points of the forward graph between the two, without what lies off the main path.
[[nodiscard]] std::vector<NodeIndex> articulation_nodes(const RematProblem& problem);

// For each repeated block the last forward node that what follows the block reads (behind it may
// stand what only backward reads, such as a dropout's mask), or else its last forward node; none
// where the graph has no blocks.
[[nodiscard]] std::vector<NodeIndex> passed_on_outputs(const RematProblem& problem);

// Every k-th of them, k = floor(sqrt(candidates)).
[[nodiscard]] std::vector<NodeIndex> chen_sqrt_checkpoints(
    const std::vector<NodeIndex>& candidates);
// Algorithm 3 for every threshold b that makes a difference among the sums of consecutive bytes
// (of graphs with many, a sample of them), ascending. Walks the forward nodes and adds up their
// bytes; a candidate at which the sum exceeds b is kept and the sum begins anew.
[[nodiscard]] std::vector<std::vector<NodeIndex>> chen_greedy_checkpoints(
    const RematProblem& problem, const std::vector<NodeIndex>& candidates);
[[nodiscard]] std::vector<NodeIndex> chen_greedy_checkpoints(
    const RematProblem& problem, const std::vector<NodeIndex>& candidates, std::int64_t threshold);

}  // namespace tidemark
