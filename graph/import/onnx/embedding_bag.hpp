// torch.nn.EmbeddingBag, which PyTorch's exporter writes as a Loop over the bags:
//
//   ends = Concat(offsets, number of indices)
//   for each bag i: Reduce(Gather(weight, Slice(indices, ends[i], ends[i + 1])))
//
// The reader makes one node of it, EmbeddingBag(weight, indices, offsets) with the attribute
// `mode`.
#pragma once

#include <optional>
#include <string>

#include "graph/import/onnx/onnx_model.hpp"

namespace tidemark {

namespace onnx_file {
class NodeProto;
}

struct OnnxEmbeddingBag {
  std::string weight;
  std::string indices;
  std::string ends;  // the offsets and the number of indices
  std::string mode;  // sum, mean or max
};

// Returns the names that such a Loop reads; nothing for any other node.
[[nodiscard]] std::optional<OnnxEmbeddingBag> embedding_bag_of(const onnx_file::NodeProto& node);

// Replaces the third operand of each EmbeddingBag, `ends`, by the offsets, and removes the nodes
// that only counted bags for the Loop. Offsets that include the end already, which no Concat makes,
// stay and are marked by `include_last_offset`.
void take_offsets_of_bags(OnnxModel& model);

}  // namespace tidemark
