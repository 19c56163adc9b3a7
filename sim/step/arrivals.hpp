// The values that a pipeline's stage receives from the others, for runs of the stage alone.
#pragma once

#include <span>
#include <vector>

#include "graph/analysis/program_order.hpp"
#include "graph/core/units.hpp"
#include "sim/engine/scratch.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Returns when each receive of a program has ended in a run of all stages, by instruction. Receives
// that the run has not come to have no arrival.
[[nodiscard]] std::vector<Arrival> arrivals_of(const StepProgram& program, const Scratch& scratch);
// Returns arrivals at the start of the run: the other stages are never waited for.
[[nodiscard]] std::vector<Arrival> arrivals_at_once(const StepProgram& program);

using ArrivalsByStep = std::vector<std::vector<Duration>>;  // in issue order
[[nodiscard]] ArrivalsByStep arrivals_by_step(std::span<const Arrival> arrivals,
                                              const StepProgram& program,
                                              const ProgramOrder& order);
// Returns the arrivals of a program of more steps: after the known steps the last of them repeats.
[[nodiscard]] std::vector<Arrival> repeated_arrivals(const ArrivalsByStep& known,
                                                     const StepProgram& program,
                                                     const ProgramOrder& order);

}  // namespace tidemark
