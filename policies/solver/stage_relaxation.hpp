// A smaller relaxation of Checkmate's integer program, for graphs of hundreds and thousands of
// nodes: stages that end at chosen nodes, and memory counted where they end.
//
//   nodes     0 1 2 3 4 5 6 7 8 9       stage T covers first_T .. end_T; the last ends at N - 1
//   stages    [     ] [   ] [   ]       only nodes before first_T have variables in stage T
//
//   R[T,i]  node i is recomputed in stage T        S[T,i]  its value enters stage T
//   P[W,i]  it is recomputed in some stage of the window W = [a, b] of stages; P[[T,T],i] = R[T,i]
// minimise sum cost_i R[T,i] with, all in [0, 1], for every window and i, u, v before first_a
//     P[W,u] + S[a,u] >= 1            for inputs u of nodes first_a .. end_b
//     P[W,u] + S[a,u] >= P[W,v]       for inputs u of v
//     S[b+1,i] <= S[a,i] + P[W,i]     what the window itself computes first may stay
//     P[W,i] <= P[W1,i] + P[W2,i]     where W consists of W1 and W2
//     sum of bytes_i S[T+1,i] over i that end_T does not read <= budget - footprint(end_T)
//
// Windows are 1, 2, 4, ... stages long and overlap by half. They make the relaxation tight: with
// single stages alone a tenth of an input, kept for ten stages, would do for ten tenths of v.
//
// The values that enter stage T + 1 are resident while end_T is computed for the first time. Every
// schedule of class fixed, however often it repeats a node within a stage, satisfies the rows when
// P[W,i] = 1 wherever it repeats i at all: the optimum is a lower bound in the classes checkmate
// and fixed. With one stage after the first it is the bound of one time cut; with more, cuts
// combine.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/remat/problem.hpp"
#include "policies/solver/linear_program.hpp"
#include "policies/solver/lower_bound.hpp"

namespace tidemark {

struct StageRelaxation {
  std::vector<NodeIndex> ends;  // ends of the stages, ascending; the last is N - 1
  // S* by stage and node; nodes from the stage's first on are absent.
  std::vector<std::vector<double>> resident;
  double lower_bound = 0;  // base cost included; proven by the dual iterates whatever the accuracy
  double objective = 0;    // objective of the relaxation, as far as it converged
  LinearResult solved;     // a start for the program of another budget and the same ends
};

// Returns ends of stages with which the program has at most about `entries` matrix entries: nodes
// during which computing every node once takes more than the budget, more of them where it takes
// most.
[[nodiscard]] std::vector<NodeIndex> stage_ends(const RematProblem& problem, std::int64_t budget,
                                                std::size_t entries);

// Solves the relaxation. Every node's footprint must be within the budget.
[[nodiscard]] StageRelaxation relax_stages(const RematProblem& problem, std::int64_t budget,
                                           std::vector<NodeIndex> ends,
                                           const LinearOptions& options);

// Returns schedules with one stage rounded, for each stage after the first, at one half and at the
// threshold where it fits while the stage before ends; everything else is kept. Where one moment
// decides, the other stages' fractions only drop values that there is room for. `resident` and
// `ends` are those of StageRelaxation.
[[nodiscard]] std::vector<CutChoice> single_stage_roundings(
    const RematProblem& problem, std::int64_t budget, const std::vector<NodeIndex>& ends,
    const std::vector<std::vector<double>>& resident);

// Returns a bound that combines time cuts, that of `cut` among them: the greatest of `known` and of
// relaxations of more and more stages; a multiple of cost_unit(). Where it ends does not depend on
// the time unless `deadline` passes. `choices`, if any, gets the relaxations' roundings.
[[nodiscard]] std::int64_t combined_bound(const RematProblem& problem, std::int64_t budget,
                                          NodeIndex cut, std::int64_t known,
                                          std::chrono::steady_clock::time_point deadline,
                                          std::vector<CutChoice>* choices = nullptr);

// Returns the values that enter each single node's stage when `kept` (stages x nodes) enters the
// longer ones: inside a stage values stay while its own nodes read them, and a value that is kept
// at its end but was not there comes back at its end.
[[nodiscard]] std::vector<std::vector<bool>> spread_over_nodes(
    const RematProblem& problem, const std::vector<NodeIndex>& ends,
    const std::vector<std::vector<bool>>& kept);

}  // namespace tidemark
