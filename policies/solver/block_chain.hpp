// A training graph as a chain of blocks: rotor's recurrence over stages, with several plans for the
// inside of each (Rockmate).
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "policies/remat/problem.hpp"
#include "policies/solver/stages.hpp"

namespace tidemark {

struct BlockChainOptions {
  std::size_t stages = 32;  // the most; the recurrence takes their third power
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
