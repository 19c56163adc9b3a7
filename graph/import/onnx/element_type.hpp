// Element types of ONNX's TensorProto.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/dtype.hpp"

namespace tidemark {

// Returns the simulated type for a TensorProto.DataType, unsigned integers as signed ones of their
// size, the four fp8 types as one. Nothing for strings, complex and sub-byte types.
[[nodiscard]] constexpr std::optional<DType> onnx_element_type(std::int64_t code) {
  switch (code) {
    case 1:
      return DType::kFloat32;
    case 2:  // uint8
    case 3:
      return DType::kInt8;
    case 6:
    case 12:  // uint32
      return DType::kInt32;
    case 7:
    case 13:  // uint64
      return DType::kInt64;
    case 9:
      return DType::kBool;
    case 10:
      return DType::kFloat16;
    case 11:
      return DType::kFloat64;
    case 16:
      return DType::kBFloat16;
    case 17:
    case 18:
    case 19:
    case 20:
      return DType::kFloat8;
    default:
      return std::nullopt;
  }
}

}  // namespace tidemark
