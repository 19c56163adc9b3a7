// Element types and data of tensors as protobuf holds them; only where protobuf is installed.
#pragma once

#include <string>

#include "graph/import/onnx/onnx.pb.h"
#include "graph/import/onnx/onnx_model.hpp"

namespace tidemark {

// TensorProto.DataType as an element type that is simulated. `where` begins the message of the
// UserError otherwise.
[[nodiscard]] DType onnx_dtype(int type, const std::string& where);
// Shape and, up to kKnownElements, content.
[[nodiscard]] OnnxConstant onnx_constant(const onnx_file::TensorProto& proto,
                                         const std::string& where);

}  // namespace tidemark
