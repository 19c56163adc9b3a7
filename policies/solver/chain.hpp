// Policies for chains: every forward node reads the one before it, and the backward node of forward
// node v of n is node 2 n - 1 - v. The last forward node is the loss.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "policies/remat/problem.hpp"

namespace tidemark {

[[nodiscard]] bool is_chain(const RematProblem& problem);
// Returns the number n of forward nodes. Throws UserError, naming `policy` and the node, where the
// graph is not such a chain.
[[nodiscard]] NodeIndex chain_length(const RematProblem& problem, std::string_view policy);

// Returns the reversal with the fewest repeated forwards for this many kept outputs, as in
// revolve_repeats. Throws UserError for chains longer than kLongestReversal.
inline constexpr NodeIndex kLongestReversal = 4000;
[[nodiscard]] Schedule revolve_schedule(const RematProblem& problem, int checkpoints);

struct RotorPlan {
  Schedule schedule;
  std::int64_t cost = 0;  // cost in the recurrence, every stage fused
};
// Solves rotor's recurrence (hal-02352969, theorem 1) with abar = the stage's own output, on exact
// sizes; where they make too many states, sizes are rounded up to 1/1000 of the budget, in long
// chains to less. Nothing: no memory-persistent schedule fits, or `deadline` came first. The table
// is quadratic in the chain: of chains longer than kLongestRotor others make fewer stages.
inline constexpr NodeIndex kLongestRotor = 440;
[[nodiscard]] std::optional<RotorPlan> rotor_schedule(
    const RematProblem& problem, std::int64_t budget,
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max());

}  // namespace tidemark
