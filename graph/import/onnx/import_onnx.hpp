// Reads models that PyTorch exported to ONNX (operator sets 11 to 17, in training or inference
// form, with or without weights) as what PyTorch ran: what the exporter took apart (layer_norm,
// gelu, silu, linear, ...) is put together again, so that autograd keeps what it keeps there, and
// Reshape is a view or a copy as strides decide.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/import/onnx/onnx_roles.hpp"
#include "graph/ir/graph.hpp"
#include "graph/models/model_options.hpp"

namespace tidemark {

struct OnnxOptions {
  // Axis of every input that is the batch: its extent becomes training.micro_batch. Without it the
  // batch is that of the file.
  std::optional<std::int64_t> batch_axis;
  // The user has written training.micro_batch: without batch_axis, axis 0 of the first input must
  // have this extent.
  bool batch_is_stated = false;
  // Extents of axes that the file leaves open, by their names or as INPUT.AXIS.
  std::vector<std::pair<std::string, std::int64_t>> axes;
  // Roles of initializers that the file does not tell, or tells wrong.
  std::vector<std::pair<std::string, OnnxRole>> roles;
  // The output that the loss is taken of; the first that can be differentiated unless given.
  std::string output;
};

// Keys beside `onnx`: batch_axis, axes: {NAME: extent}, roles: {NAME: parameter | buffer}, output.
[[nodiscard]] OnnxOptions decode_onnx_options(const Decoder& model);

// The forward graph of the file at `path` with its loss; layers are the modules that the nodes'
// names tell. A scalar output is the loss itself.
// Throws UserError: what read_onnx says; operators that are not known, all of them; axes that are
// open; shapes that cannot be inferred or do not fit; each names the node.
[[nodiscard]] Graph import_onnx(const std::string& path, const OnnxOptions& onnx,
                                const ModelOptions& options);

}  // namespace tidemark
