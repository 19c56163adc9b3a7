// Runs a step program on a device: a host that issues in order at its own clock, streams that run
// in order, copies that share their link, memory handed out and returned in issue order.
//
// There are two clocks, as on a real GPU. Every allocator call happens at the host's clock; kernels
// start when their stream is free and their edges have ended. At equal times, work that ends comes
// first, then work that may start, then the host. Times are integer nanoseconds; nothing depends on
// hashing or threads.
#pragma once

#include <span>
#include <vector>

#include "sim/engine/cost_table.hpp"
#include "sim/engine/run_result.hpp"
#include "sim/engine/scratch.hpp"
#include "sim/memory/allocator.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Runs one rank that communicates with no other, or with ranks that do the same at the same time.
// Out of memory is a status, not an exception. The definition stands in
// event_loop_run.hpp; sim/allocators instantiates it for each allocator.
template <Allocator A>
[[nodiscard]] RunResult run(const StepProgram& program, const CostTable& costs, A& allocator,
                            Scratch& scratch, const RunOptions& options);

// One of several ranks that differ: each has its own program, host, streams and memory.
template <Allocator A>
struct Rank {
  const StepProgram* program = nullptr;
  const CostTable* costs = nullptr;
  A* allocator = nullptr;
  Scratch* scratch = nullptr;  // prepared for the program
  RunOptions options;          // must name no eviction policy
};

// Runs the ranks together under one clock and returns their results in the same order. A receive
// runs when the matching send of the other rank has ended (peers.hpp), and takes no time of its
// own. Ranks that wait for each other end as kDeadlock, with the receive and the rank that it waits
// for; those that wait for a rank that has failed end as kPeerFailed.
template <Allocator A>
[[nodiscard]] std::vector<RunResult> run(std::span<const Rank<A>> ranks);

}  // namespace tidemark
