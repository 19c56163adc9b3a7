// Cuts a forward graph into the chunks of a pipeline, at its repeated blocks.
//
//   nodes     embed | block 0 | block 1 | block 2 | block 3 | norm, head, loss
//   chunks    0       0         0       | 1         1         1
//                                       ^ one value crosses
//
// Operators before the first block belong to the first chunk, those after the last to the last. A
// value that depends on samples and on parameters is sent from chunk to chunk until the last one
// that reads it. Any other value (a mask, positions, a weight in another type) is computed by every
// chunk that reads it, and parameters, buffers and inputs are held by every chunk that reads them:
// a tied embedding by the first and the last.
#pragma once

#include <span>
#include <vector>

#include "graph/ir/graph.hpp"

namespace tidemark {

struct PipelineChunk {
  // Blocks are numbered from 0 in each chunk; layers of other chunks belong to no block.
  Graph graph;
  // Tensors of `graph` that come from the chunk before, in fresh memory, and those that go to the
  // chunk after; a value that passes through is both. In the order of the whole model's tensors.
  std::vector<TensorId> received;
  std::vector<TensorId> sent;
  // The whole model's parameters that it holds, by ParameterId of `graph`.
  IdVector<ParameterId, ParameterId> held;
  int first_block = 0;  // number of its first block in the whole model
  int blocks = 0;
};

// `blocks_by_chunk` sums to the graph's blocks; a chunk may have none.
[[nodiscard]] std::vector<PipelineChunk> split_pipeline(const Graph& graph,
                                                        std::span<const int> blocks_by_chunk);

}  // namespace tidemark
