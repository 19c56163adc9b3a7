// Memory beside the step: that of a data loader, and that of loading the weights before.
#pragma once

#include "sim/step/point_result.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Adds what the loader keeps on the host to the point's host memory, under its own role, and sets
// the point's figures of loading the weights, where the spec asks for them. A point that fits
// without these and not with them does not fit.
void add_memory_beside_step(PointResult& point, const StepSpec& spec, const TrainingGraph& graph);

}  // namespace tidemark
