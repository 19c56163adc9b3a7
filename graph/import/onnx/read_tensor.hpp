// Element types and data of tensors as protobuf holds them; only where protobuf is installed.
#pragma once

#include <optional>
#include <string>

#include "graph/import/onnx/onnx.pb.h"
#include "graph/import/onnx/onnx_model.hpp"

namespace tidemark {

// Returns the simulated element type for a TensorProto.DataType. Without one it throws a UserError
// whose message begins with `where`.
[[nodiscard]] DType onnx_dtype(int type, const std::string& where);
// Reads the shape and, up to kKnownElements, the content.
[[nodiscard]] OnnxConstant onnx_constant(const onnx_file::TensorProto& proto,
                                         const std::string& where);
// Returns an attribute's value; nothing for a kind that no operator here has.
[[nodiscard]] std::optional<OnnxAttribute> onnx_attribute(const onnx_file::AttributeProto& proto,
                                                          const std::string& where);

}  // namespace tidemark
