// Element types.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/core/units.hpp"

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
  kBool,
  // Codes of quantised weights, two in a byte. Their scales are storages of their own.
  kInt4,
  kNf4,   // quantiles of a normal distribution (Dettmers et al. 2023)
  kFp4,   // e2m1
  kByte,  // raw memory
};

// Bits of one element in memory. kTf32 is stored as fp32; only matrix products round it.
[[nodiscard]] constexpr std::int64_t bits_of(DType type) {
  switch (type) {
    case DType::kFloat64:
    case DType::kInt64:
      return 64;
    case DType::kFloat32:
    case DType::kTf32:
    case DType::kInt32:
      return 32;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 16;
    case DType::kFloat8:
    case DType::kInt8:
    case DType::kBool:
    case DType::kByte:
      return 8;
    case DType::kInt4:
    case DType::kNf4:
    case DType::kFp4:
      return 4;
  }
  return 0;
}

// Returns the memory of `elements` packed elements: an odd number of 4-bit ones leaves half a byte
// unused.
[[nodiscard]] constexpr Bytes bytes_of(DType type, Elements elements) {
  const std::int64_t bits = bits_of(type);
  return Bytes(bits >= 8 ? elements.count * (bits / 8) : (elements.count * bits + 7) / 8);
}

// Whether autograd follows the type. 4-bit types are codes, which have no gradient.
[[nodiscard]] constexpr bool is_floating(DType type) {
  return type <= DType::kFloat8;
}

[[nodiscard]] constexpr std::string_view name_of(DType type) {
  constexpr std::string_view kNames[] = {"fp64",  "fp32", "tf32", "fp16", "bf16", "fp8", "int64",
                                         "int32", "int8", "bool", "int4", "nf4",  "fp4", "byte"};
  return kNames[static_cast<int>(type)];
}

}  // namespace tidemark
