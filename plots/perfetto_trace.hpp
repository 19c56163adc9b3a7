// A run as a Perfetto trace: protobuf, smaller than Chrome's JSON and without its limits.
//
// Packets of https://perfetto.dev's trace.proto: a track per stream with steps, phases and
// operators, a counter in bytes per role of memory, flows from forward to recomputation and from
// copy out to copy in to use. Lifetimes of tensors are in the Chrome trace only.
#pragma once

#include <ostream>

#include "plots/chrome_trace.hpp"

namespace tidemark {

void write_perfetto_trace(std::ostream& out, const TrainingGraph& graph, const StepProgram& program,
                          const TraceModel& model, const TraceTitle& title);

}  // namespace tidemark
