// Settings of a user for an ONNX file beside its path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/core/decoder.hpp"
#include "graph/import/onnx/onnx_roles.hpp"

namespace tidemark {

// Longest extent, pad or step; larger ones are refused before anything is computed from them.
inline constexpr std::int64_t kLongestAxis = std::int64_t{1} << 30;

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
  // Modules that work in place, by their paths with * for any text: files of other exporters than
  // those that write tidemark.inplace do not tell.
  std::vector<std::string> in_place;
  // Tensors that the module detaches, by the file's names: the exporter drops Tensor.detach().
  std::vector<std::string> detach;
  // Tensors, by the file's names, that turns of a step compute once
  // (graph/rewrite/merge_turns.hpp).
  std::vector<std::string> shared;
  // The output that the loss is taken of; the first that can be differentiated unless given.
  std::string output;
};

// Keys beside `onnx`: batch_axis, axes: {NAME: extent}, roles: {NAME: parameter | buffer},
// in_place: [PATTERN], detach: [TENSOR], shared: [TENSOR], output.
[[nodiscard]] OnnxOptions decode_onnx_options(const Decoder& model);

}  // namespace tidemark
