// Checks of the results of a step's first passes. Each takes a small part of the time of its pass;
// what holds for every step throws InternalError with the operator at fault.
#pragma once

#include "graph/analysis/liveness.hpp"
#include "graph/analysis/program_order.hpp"
#include "graph/analysis/schedule.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/engine/cost_table.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Checks that every operator occurs as often as the schedule says.
void check_scheduled(const TrainingGraph& graph, const StepSchedule& schedule,
                     const ProgramOrder& order);

// Checks that every touch lies inside an interval: it opens the gap that is noted for it, which
// ends where the next touch of the same storage and micro-batch opens the next gap. An operator
// thus comes after what it depends on: the first touch of a storage creates it, unless the storage
// is there from the beginning.
//
//   touches    from        to = from of the next
//   gap        |--------------|
//                  release        from <= release <= to
void check_liveness(const TrainingGraph& graph, const ProgramOrder& order, const Liveness& live);

// Checks that each operator has a price, that no duration is negative, and that running every
// operator once takes a time that can be counted in nanoseconds.
void check_prices(const TrainingGraph& graph, const CostTable& costs);

// Throws UserError where `steps` steps might take longer than 64 bits of nanoseconds hold: every
// operator and copy one after the other, each with an allocation that is retried.
void check_time(const TrainingGraph& graph, const CostTable& costs, int steps);

// Checks that every launch and copy of `copied`, where operators in place write to memory of their
// own, reads the values that it reads in `program`, from memory that is allocated.
void check_copies(const StepProgram& program, const StepProgram& copied);

}  // namespace tidemark
