// Lower bounds of the cost of every schedule of a class.
//
// Knapsack at a time cut (class checkmate, fixed): when node v is computed for the first time, each
// value that is read after v is either resident or has to be recomputed. v, its inputs and its
// workspace take room; of the other values, those of the least total cost are dropped so that it
// fits. In class unrestricted the order of first evaluations is open, and only certain values
// count: those that v comes from and that a node coming from v reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "policies/remat/problem.hpp"

namespace tidemark {

struct KnapsackItem {
  std::int64_t cost = 0;
  std::int64_t bytes = 0;
};

// A cost above every sum of costs: no choice reaches it.
inline constexpr std::int64_t kNoSchedule = std::int64_t{1} << 60;

// Returns the least cost of items that have at least `excess` bytes together; every number >= 0.
// Exact when costs are multiples of few units, else rounded down by at most one part in thousands
// per item. kNoSchedule when all items together have less.
[[nodiscard]] std::int64_t cheapest_cover(std::vector<KnapsackItem> items, std::int64_t excess);

// The nodes that a bound's choice recomputes once `node` has been computed for the first time.
struct CutChoice {
  NodeIndex node = 0;
  std::vector<NodeIndex> recomputed;  // ascending
};

// Returns the greatest bound over all cuts, for the tightest also that of closure_bound(), base
// cost included (after `deadline` no further cut is looked at); a multiple of cost_unit(). Every
// node's footprint must be within the budget. kNoSchedule: nodes that may run only once do not fit
// at some cut. `choices`, if any, gets those of the greatest bounds, the greatest last.
[[nodiscard]] std::int64_t cut_bound(
    const RematProblem& problem, std::int64_t budget, ScheduleClass schedule_class,
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max(),
    std::vector<CutChoice>* choices = nullptr);

// Returns the schedule with every node once in the order of the list and, after `choice.node`, the
// chosen nodes once more, right before their first readers there. It is of class checkmate and fits
// at the cut, perhaps not elsewhere.
[[nodiscard]] Schedule schedule_of(const RematProblem& problem, const CutChoice& choice);

}  // namespace tidemark
