// A model as it is trained: its training graph and what the graph holds and computes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/analysis/schedule.hpp"
#include "graph/core/units.hpp"
#include "graph/ir/training_graph.hpp"
#include "sim/step/run_pass.hpp"
#include "sim/step/shared_programs.hpp"

namespace tidemark {

// Blocks of a chunk, as the whole model numbers them.
struct StageBlocks {
  int first = 0;
  int count = 0;
};

// A model with training, precision and rewrites applied: immutable, shared by all points that
// agree on them.
struct TrainedModel {
  TrainingGraph training;
  Bytes parameters;  // bytes held persistently by one rank
  Bytes buffers;
  Bytes inputs;
  Bytes gradients;
  Bytes optimizer_state;
  Flops forward_flops;  // flops of one micro-batch
  Flops step_flops;     // flops of all micro-batches, forward and backward, without recomputation
  Elements parameter_count;  // parameters of the whole model, each counted once
  Elements trainable_parameter_count;
  std::vector<std::string> warnings;  // see training_warnings.hpp
  // The first block trains something, and nothing that enters it has a gradient.
  bool enters_without_gradient = false;
  // Blocks of a reentrant policy have no gradients because of it (graph/rewrite/detach_segments).
  bool detached = false;
  std::vector<PassTime> passes;

  // A pipeline's stage: its number, the blocks of its chunks, and its work in each step. Empty
  // without a pipeline: the micro-batches run one after another.
  int stage = 0;
  std::vector<StageBlocks> chunks;
  std::vector<ScheduledPart> work;
  // All stages of a pipeline, of which the model itself is the first.
  std::vector<std::shared_ptr<const TrainedModel>> stages;

  // Programs that are shared with models of the same structure, which it names; null: none are.
  std::shared_ptr<SharedPrograms> programs;
  StructureId structure;
};

}  // namespace tidemark
