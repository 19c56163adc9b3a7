// The live bytes of a program, known without running it.
#pragma once

#include <cstddef>

#include "graph/core/units.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Returns by how much an instruction changes the bytes of allocations, as requested, on the device:
// positive for an allocation, negative for a free.
[[nodiscard]] Bytes live_change(const StepProgram& program, std::size_t instruction);

// Returns the most live bytes of a run. Allocations are made in the order of issue, and a free
// counts where it is issued: what waits for another stream's event is no longer live, but the
// allocator cannot hand it out yet. So every run without eviction holds as much; one that evicts
// may hold less.
[[nodiscard]] Bytes live_peak(const StepProgram& program);

}  // namespace tidemark
