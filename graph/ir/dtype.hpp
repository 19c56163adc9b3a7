// Element types.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tidemark {

enum class DType : std::uint8_t {
  kFloat64,
  kFloat32,
  kTf32,
  kFloat16,
  kBFloat16,
  kFloat8,
  kInt64,
  kInt32,
  kInt8,
  kBool
};

// Bytes of one element in memory. kTf32 is stored as fp32; only matrix products round it.
[[nodiscard]] constexpr std::int64_t size_of(DType type) {
  switch (type) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kTf32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kFloat8:
    case DType::kInt8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

[[nodiscard]] constexpr bool is_floating(DType type) {
  return type <= DType::kFloat8;
}

[[nodiscard]] constexpr std::string_view name_of(DType type) {
  constexpr std::string_view kNames[] = {"fp64", "fp32",  "tf32",  "fp16", "bf16",
                                         "fp8",  "int64", "int32", "int8", "bool"};
  return kNames[static_cast<int>(type)];
}

}  // namespace tidemark
