// Reports the moment at which a step holds most, and whose bytes these are.
#pragma once

#include <cstddef>

#include "graph/ir/training_graph.hpp"
#include "sim/engine/engine.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/point_result.hpp"

namespace tidemark {

// `scratch` is that of the run that reached the peak, with events. `largest` is the number of
// tensors to name. `begin` is the begin of the last step; the peak's time counts from there.
[[nodiscard]] PeakReport report_peak(const TrainingGraph& graph, const Compiled& compiled,
                                     const Scratch& scratch, const Peak& peak, std::size_t largest,
                                     Duration begin);

}  // namespace tidemark
