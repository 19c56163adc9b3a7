// The timeline as a table: one row per change of device memory.
#pragma once

#include <ostream>

#include "graph/analysis/program_order.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/result/timeline.hpp"

namespace tidemark {

// Writes the columns time_ns from the start of the run, step, phase, operator, layer, tensor, event
// (allocate or free), bytes, live, active, reserved, then live bytes by role. `tensor` is
// "workspace" where memory belongs to one operator only.
void write_timeline_csv(std::ostream& out, const TrainingGraph& graph, const ProgramOrder& order,
                        const StepProgram& program, const MemoryTimeline& timeline);

}  // namespace tidemark
