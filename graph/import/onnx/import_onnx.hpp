// Reads models that PyTorch exported to ONNX (operator sets 11 to 20, in training or inference
// form, with or without weights) as the operators that PyTorch ran. Those that the exporter took
// apart (layer_norm, gelu, silu, linear, ...) are put together again, so that autograd keeps what
// it keeps there, and Reshape is a view or a copy as strides decide.
#pragma once

#include <string>

#include "graph/import/onnx/onnx_options.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

// Returns the forward graph of the file at `path` with its loss; layers are the modules that the
// nodes' names tell. A scalar output is the loss itself. Throws UserError: what read_onnx throws;
// operators that are not known, all of them; axes that are open; shapes that cannot be inferred or
// do not fit; each names the node.
[[nodiscard]] Graph import_onnx(const std::string& path, const OnnxOptions& onnx,
                                const ModelOptions& options);

}  // namespace tidemark
