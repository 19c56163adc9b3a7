// Formats of quantised weights: the tensors that hold one, and what reading it takes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

// Libraries that quantise weights.
enum class QuantisedBy : std::uint8_t { kBitsandbytes, kTorchao };

struct QuantisedFormat {
  std::string_view name;  // name in scenarios
  QuantisedBy library = QuantisedBy::kBitsandbytes;
  DType codes = DType::kNf4;
  // Scales are themselves quantised to 8 bits, in blocks of 256.
  bool nested = false;
  std::string_view source;
};

[[nodiscard]] std::span<const QuantisedFormat> quantised_formats();
// Finds a format; null when the library has none of that name.
[[nodiscard]] const QuantisedFormat* find_quantised_format(std::string_view name,
                                                           std::string_view library);

// A tensor beside the codes of a weight: scales, their scales, tables.
struct QuantisedState {
  std::string_view name;
  Elements elements;
  DType dtype = DType::kFloat32;
};

// A weight as it is quantised.
struct QuantisedWeight {
  std::int64_t rows = 0;           // output features
  Elements elements;               // elements of the whole weight
  std::int64_t block = 64;         // elements that share a scale
  DType model = DType::kBFloat16;  // type of the weight before it was quantised
};

// Returns the tensors beside the codes.
[[nodiscard]] std::vector<QuantisedState> states_of(const QuantisedFormat& format,
                                                    const QuantisedWeight& weight);
// Returns why the library does not quantise the weight; empty where it does.
[[nodiscard]] std::string refuses(const QuantisedFormat& format, const QuantisedWeight& weight);

}  // namespace tidemark
