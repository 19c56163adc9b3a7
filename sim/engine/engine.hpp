// Replays a step program on a device: a host that issues in order at its own clock, streams that
// run in order, copies that share their link, memory handed out and returned in issue order.
//
// Two clocks, as on a real GPU. Every allocator call happens at the host's clock; kernels start
// when their stream is free and their edges have ended. At equal times: work that ends, work that
// may start, the host. Times are integer nanoseconds; nothing depends on hashing or threads.
#pragma once

#include "sim/engine/cost_table.hpp"
#include "sim/engine/run_result.hpp"
#include "sim/engine/scratch.hpp"
#include "sim/memory/allocator.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Runs one rank. Out of memory is a status, not an exception. The definition stands in
// event_loop_run.hpp; sim/allocators instantiates it for each allocator.
template <Allocator A>
[[nodiscard]] RunResult run(const StepProgram& program, const CostTable& costs, A& allocator,
                            Scratch& scratch, const RunOptions& options);

}  // namespace tidemark
