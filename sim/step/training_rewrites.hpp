// Applies the rewrites of a step to its training graph, in the order of their stages.
#pragma once

#include <vector>

#include "graph/ir/training_graph.hpp"
#include "sim/step/run_pass.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// The rewrites of one chunk of a pipeline, which belong to a module of its own, and those of
// everything that a rank holds.
enum class RewriteScope { kChunk, kRank };

// A model without a pipeline gets the rewrites of both scopes in turn; `piece`: see RewriteContext.
void rewrite_training(const StepSpec& spec, RewriteScope scope, TrainingGraph& graph,
                      std::vector<PassTime>& passes, int piece = 0);

}  // namespace tidemark
