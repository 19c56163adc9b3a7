// Roles of initializers: a file does not say whether a tensor is trained.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/import/onnx/onnx_uses.hpp"
#include "graph/ir/tensor.hpp"

namespace tidemark {

enum class OnnxRole : std::uint8_t {
  kParameter,
  kBuffer,
  kSetting,  // no tensor of the model: a shape, axes, bounds
};

// Tensors of the module that the graph does not use (num_batches_tracked, unused weights).
struct OnnxAbsent {
  std::string name;
  bool is_parameter = false;
  DType dtype = DType::kInt64;
  Shape shape;
};

// Returns "; did you mean 'NAME'?", or the first few of `known`; "" when there is none.
[[nodiscard]] std::string known_names(std::string_view name, const std::vector<std::string>& known);

struct OnnxRoles {
  std::vector<OnnxRole> initializers;  // roles of the initializers in the file's order
  std::vector<OnnxAbsent> absent;
};

// Returns the roles of a file's initializers, in this order of precedence: `wanted` (name, role) of
// the user; metadata "tidemark.role:NAME" = parameter | buffer; the rules: integers and bools,
// running statistics of BatchNormalization and tensors that reach only comparisons, conditions of
// Where, indices of Gather or Shape are buffers, everything else is a parameter. Metadata
// "tidemark.absent:NAME" = "buffer int64 []" names tensors that the graph does not hold. Throws
// UserError: `wanted` names no initializer, or malformed metadata.
[[nodiscard]] OnnxRoles onnx_roles(const OnnxModel& model, const OnnxUses& uses,
                                   const std::vector<std::pair<std::string, OnnxRole>>& wanted);

}  // namespace tidemark
