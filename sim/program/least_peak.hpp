// A bound on the memory that a program takes, known without running it.
#pragma once

#include "graph/core/units.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Returns the most bytes of allocations, as requested, that a run of the program holds on the
// device at a time. They are allocated in the order of issue, and a free counts where it is issued:
// what waits for another stream's event is no longer live, but the allocator cannot hand it out
// yet. So every run without eviction holds as much; one that evicts may hold less.
[[nodiscard]] Bytes least_peak(const StepProgram& program);

}  // namespace tidemark
