// Why a run ended early, in figures and in words.
#pragma once

#include "graph/ir/training_graph.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/out_of_memory.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/point_result.hpp"

namespace tidemark {

// `scratch`: of the run, with events; `memory`: the device's when it ran out.
[[nodiscard]] Failure report_failure(const TrainingGraph& graph, const Compiled& compiled,
                                     const Scratch& scratch, const RunResult& run,
                                     const OutOfMemory& memory);

// A failure that is its reason and nothing else.
[[nodiscard]] Failure failure_because(std::string reason);

}  // namespace tidemark
