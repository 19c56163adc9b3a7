// Trial runs of whole steps, for rewrites that choose among several models.
#pragma once

#include "graph/core/units.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Returns the peak of live bytes of the step with this training graph, under the policies that
// decide about a model: recomputation, movement. Memory is unlimited.
[[nodiscard]] Bytes live_peak(const StepSpec& spec, TrainingGraph graph);

}  // namespace tidemark
