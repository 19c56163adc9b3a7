// The values that cross from forward to backward, as a minimum cut (PyTorch's min-cut partitioner).
//
// For each forward value i: it is there in backward (a_i) because it was saved or because it is
// recomputed (r_i), for which its inputs must be there. The least of
//   sum over i of  price bytes_i (a_i - r_i) + cost_i r_i
//   with  a_i = 1 where backward reads i,  r_i <= a_i,  r_i <= a_d for every input d of i
// is a closure problem, which a maximum flow solves. PyTorch weighs bytes and does not recompute
// expensive operators; here each `price` of a byte gives one cut, and the budget chooses.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "policies/remat/problem.hpp"
#include "policies/solver/choose_schedule.hpp"

namespace tidemark {

// Returns for each node whether its value is saved, at `price` units of cost per byte; nothing
// where `deadline` comes first.
[[nodiscard]] std::optional<std::vector<bool>> min_cut_saved(
    const RematProblem& problem, double price,
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());

// Considers keep_schedule() of the cuts of prices between the least and the greatest ratio of cost
// to bytes, as many as the choice gives time for.
void consider_min_cuts(const RematProblem& problem, ScheduleChoice& choice);

// PyTorch's activation_memory_budget: of the forward bytes that backward reads, `share` is saved
// (0: only nodes that may run only once, 1: all), chosen by a knapsack so that recomputing the
// others costs least; each is weighed with its own cost. Sizes are counted in 1/2000 of all.
// PyTorch measures the share on what its compiler's default partition saves, which fuses operators
// that are cheap to recompute; here nothing is fused, and 1 is what an eager step saves.
[[nodiscard]] Schedule saved_share_schedule(const RematProblem& problem, double share);

}  // namespace tidemark
