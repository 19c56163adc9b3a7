// A bound on the memory that a program takes, known without running it.
#pragma once

#include "graph/core/units.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Returns bytes of allocations, as requested, that every run of the program holds on the device at
// some moment: the most that are live if each free takes effect when it is issued. A free that
// waits for another stream takes effect later, and allocations are made in the order of issue. Runs
// that evict may hold less.
[[nodiscard]] Bytes least_peak(const StepProgram& program);

}  // namespace tidemark
