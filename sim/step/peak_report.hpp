// The moment at which a step holds most: when, and whose bytes.
#pragma once

#include <cstddef>

#include "graph/ir/training_graph.hpp"
#include "sim/engine/engine.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/point_result.hpp"

namespace tidemark {

// `scratch`: of the run that reached the peak, with events. `largest`: how many tensors to name.
// `begin`: when the last step begins; the peak's time counts from there.
[[nodiscard]] PeakReport report_peak(const TrainingGraph& graph, const Compiled& compiled,
                                     const Scratch& scratch, const Peak& peak, std::size_t largest,
                                     Duration begin);

}  // namespace tidemark
