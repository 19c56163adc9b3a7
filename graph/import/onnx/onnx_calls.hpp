// Calls of modules by the names of nodes: the node /enc/layers.0/attn/MatMul ran in the calls enc,
// layers.0 and attn. A list of modules is not called, and the exporter numbers repeated calls.
#pragma once

#include <vector>

#include "graph/import/onnx/onnx_uses.hpp"

namespace tidemark {

// A value from outside that a call reads. PyTorch's Module.__call__ holds its arguments until
// forward() returns, whatever the module does with them.
struct OnnxArgument {
  OnnxValueId value;
  OnnxNodeId returns;  // the last node of the call
};

// Returns the arguments that are read for the last time before their call returns; of nested calls
// with the same argument, the outermost.
[[nodiscard]] std::vector<OnnxArgument> arguments_of_calls(const OnnxModel& model,
                                                           const OnnxUses& uses);

}  // namespace tidemark
