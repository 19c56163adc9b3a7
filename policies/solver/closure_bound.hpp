// The knapsack of a time cut with the consequences of dropping: a recomputed node needs its inputs,
// and those are resident at the cut or recomputed as well.
//
//   at the first computation of v, for i before v and not an input of v:
//   minimise sum cost_i r_i   with   kept_i + r_i >= 1 where i is read after v,
//                                    r_i <= kept_d + r_d for every input d of i,
//                                    sum bytes_i kept_i <= room beside v, its inputs and workspace
//
// Priced at p per byte of room, the rest is a closure problem, which a minimum cut solves; the best
// p gives the bound of the linear relaxation.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "policies/remat/problem.hpp"

namespace tidemark {

struct ClosureCut {
  NodeIndex node = 0;             // v
  std::int64_t room = 0;          // bytes left beside v, its inputs and its workspace, >= 0
  std::vector<NodeIndex> needed;  // read after v, neither v nor its inputs; all before v
};

struct ClosureBound {
  double cost = 0;  // lower bound of sum cost_i r_i; a real number less the guard for rounding
  // Choices that were found to fit, i with r_i = 1, ascending: the cheapest last.
  std::vector<std::vector<NodeIndex>> recomputed;
  double price = 0;  // the best; 0: none was tried
};

// Exact for the relaxation unless it is no more than `enough`, where it may end early. `price` is
// where the search for the best begins; 0: anywhere. At `deadline` the best so far is returned.
[[nodiscard]] ClosureBound closure_bound(
    const RematProblem& problem, const ClosureCut& cut, double enough = 0, double price = 0,
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());

// Returns the bound with whole choices: branch and bound on r_i, the lowest bound first, until
// `relaxations` have been solved. Exact if it ends before.
[[nodiscard]] ClosureBound closure_branch_and_bound(const RematProblem& problem,
                                                    const ClosureCut& cut, int relaxations,
                                                    std::chrono::steady_clock::time_point deadline);

}  // namespace tidemark
