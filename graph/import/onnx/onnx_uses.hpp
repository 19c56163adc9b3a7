// The producer and the readers of each value of an ONNX file.
#pragma once

#include <vector>

#include "graph/import/onnx/onnx_model.hpp"

namespace tidemark {

struct OnnxUse {
  OnnxNodeId node;
  std::size_t operand = 0;
};

struct OnnxUses {
  explicit OnnxUses(const OnnxModel& model);

  IdVector<OnnxValueId, OnnxNodeId> producer;  // invalid for inputs and initializers
  IdVector<OnnxValueId, std::vector<OnnxUse>> readers;
  IdVector<OnnxValueId, char> is_output;  // outputs of the whole graph

  // Returns the only node that reads `value`, as long as the graph does not return it; else
  // invalid.
  [[nodiscard]] OnnxNodeId only_reader(OnnxValueId value) const {
    const std::vector<OnnxUse>& all = readers[value];
    return all.size() == 1 && is_output[value] == 0 ? all.front().node : OnnxNodeId();
  }
};

// Whether an operand is a setting of the operator (a shape, axes, bounds, a probability) rather
// than a tensor that it computes with.
[[nodiscard]] bool is_setting(const OnnxNode& node, std::size_t operand);

// Returns the number of operands that a node cannot do without: one for most operators.
[[nodiscard]] std::size_t least_operands(const OnnxNode& node);

}  // namespace tidemark
