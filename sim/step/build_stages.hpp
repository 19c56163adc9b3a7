// Builds the training graphs of a pipeline's stages.
#pragma once

#include "graph/ir/graph.hpp"
#include "policies/rewrite/pipeline.hpp"
#include "sim/step/build_training.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Returns the step's pipeline; null where it has none, or one of a single stage.
[[nodiscard]] const PipelineOptions* pipeline_of(const StepSpec& spec);

// Cuts a model that all forward rewrites have been applied to. Each chunk is differentiated and
// accumulates and shards its gradients by itself; a rank's optimizer has the parameters of all its
// chunks. `model` has the figures of the whole model. Throws UserError.
[[nodiscard]] TrainedModel build_stages(const StepSpec& spec, const PipelineOptions& pipeline,
                                        const Graph& graph, TrainedModel model);

}  // namespace tidemark
