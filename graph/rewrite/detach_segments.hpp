// Reentrant checkpoints of blocks that nothing with a gradient enters.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "graph/ir/graph.hpp"

namespace tidemark {

// Blocks [first, end) of a model, counted from 0.
struct BlockRange {
  int first = 0;
  int end = 0;
};

// Returns segments of `period` blocks each; the last one may be shorter.
[[nodiscard]] std::vector<BlockRange> segments_of(int blocks, int period);

// torch.utils.checkpoint's autograd function runs a segment without autograd, and gives gradients
// only where one of its inputs requires one ("None of the inputs have requires_grad=True"): else
// the segment's parameters get none, and what it returns requires none, as the input of the next.
// Returns the trained parameters that get no gradient because of it.
[[nodiscard]] std::vector<TensorId> without_gradients(const Graph& graph,
                                                      std::span<const BlockRange> segments);
// Returns the graph with the parameters of such segments frozen; none where all get their
// gradients, and where nothing at all would be trained, which PyTorch refuses to run.
[[nodiscard]] std::optional<Graph> detach_segments(const Graph& graph,
                                                   std::span<const BlockRange> segments);

}  // namespace tidemark
