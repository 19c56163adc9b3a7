// The search for a way to compute a node within a budget, from nothing and keeping nothing else.
//
// Backwards, the search is: a set X of values is to be resident. Some i of X was computed last;
// before it X - {i} and the inputs of i were resident, and during it all of these together:
//   X  <-  (X - {i}) + inputs(i)     while bytes(X + inputs(i)) + workspace(i) fit
// until X is empty. A graph has a schedule in the classes fixed and unrestricted if and only if
// every node passes, since each node may be computed from nothing in turn.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "policies/remat/problem.hpp"

namespace tidemark {

// Outcomes of the search. States are searched in the order that undoes the latest nodes first,
// which keeps close to the order of the list; every step replaces a node by earlier ones, so that
// every path ends.
enum class Reach : std::uint8_t { kReached, kImpossible, kStopped };

struct ReachResult {
  Reach reach = Reach::kStopped;
  Schedule schedule;  // kReached: repeats and first computations; ends with the node
  std::size_t states = 0;
};

// Searches from the values of `resident` (by node), all of which may be dropped on the way.
[[nodiscard]] ReachResult reach_node(const RematProblem& problem, std::int64_t budget,
                                     NodeIndex node, const std::vector<bool>& resident,
                                     std::size_t state_limit);

struct Construction {
  Reach reach = Reach::kStopped;
  Schedule schedule;   // kReached: of class fixed, within the budget; far from cheap
  NodeIndex node = 0;  // kImpossible: the first that no schedule can compute
};

// Computes one node after the other, each from the values that happen to be resident. Stops after
// `deadline`.
[[nodiscard]] Construction construct_schedule(
    const RematProblem& problem, std::int64_t budget, std::size_t state_limit_per_node,
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());

}  // namespace tidemark
