// Reports why a run ended early, in figures and in words.
#pragma once

#include "graph/ir/training_graph.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/out_of_memory.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/point_result.hpp"

namespace tidemark {

// `scratch` is that of the run, with events; `memory` is the device's when it ran out.
[[nodiscard]] Failure report_failure(const TrainingGraph& graph, const Compiled& compiled,
                                     const Scratch& scratch, const RunResult& run,
                                     const OutOfMemory& memory);

// Returns a failure that has a reason and nothing else.
[[nodiscard]] Failure failure_because(std::string reason);

}  // namespace tidemark
