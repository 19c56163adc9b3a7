// A training graph as a chain of blocks: rotor's recurrence over stages, with several plans for the
// inside of each (Rockmate).
//
//   forward     [ stage 1 ] x1 [ stage 2 ] x2 ... [ stage L, loss and first gradients ]
//   backward    [ stage 1 ]    [ stage 2 ]    ... [ stage L                           ]
//
// A stage ends at a forward node beside which nothing but values of the whole network (masks,
// tables, long skips) is read later. A backward node belongs to the stage whose inner values it
// reads, or to that of the backward nodes before it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "policies/remat/problem.hpp"

namespace tidemark {

struct Stage {
  std::vector<NodeIndex> forward;   // ascending; the last one is the stage's output
  std::vector<NodeIndex> backward;  // ascending
};
// Splits a graph into at most `most` stages; fewer than two where the graph is no chain of them.
[[nodiscard]] std::vector<Stage> stages_of(const RematProblem& problem, std::size_t most);

struct BlockChainOptions {
  // Number of plans for the inside of a stage besides the one that keeps all, by the bytes that are
  // kept from its forward to its backward. 0: rotor. Equal stages share theirs.
  int plans = 8;
  std::int64_t iterations = 1500;  // iterations of the search for each plan
  std::uint64_t seed = 1;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

// Returns schedules that the recurrence finds for the budget and for somewhat more and less, since
// it only estimates memory. C(s,t,m), the least cost of stages s..t from s's input in room m:
//   C(s,s,m) = the cheapest plan that fits
//   C(s,t,m) = min over plans o of s:   forward_o + C(s+1, t, m - kept_o) + backward_o
//              min over s < k <= t:     forward of s..k-1 + C(k, t, m - x_{k-1})
//                                         + C(s, k-1, m - gradients that k..t leave)
// Beaumont et al. 2019 (hal-02352969), theorem 1; Zhao et al. 2023 (Rockmate, arXiv 2307.01236).
[[nodiscard]] std::vector<Schedule> block_chain_schedules(const RematProblem& problem,
                                                          std::int64_t budget,
                                                          const BlockChainOptions& options);

}  // namespace tidemark
