// Makes one training graph of the chunks that a rank of a pipeline holds. Each keeps its forward
// and backward; gradients are dropped, and the step ends, once for all.
#pragma once

#include <vector>

#include "graph/autodiff/stage_boundary.hpp"
#include "graph/ir/training_graph.hpp"

namespace tidemark {

// A chunk and the storages of its transfers.
struct ChunkGraph {
  TrainingGraph training;
  StageTransfers transfers;
  // The chunk after it is the next of the same rank, as where a V turns: what they would send each
  // other stays where it is.
  bool hands_on = false;
};

// Blocks are numbered through the chunks, which are in the order of their numbers. `rank` is their
// rank in the pipeline.
[[nodiscard]] TrainingGraph merge_chunks(std::vector<ChunkGraph> chunks, int rank);

}  // namespace tidemark
