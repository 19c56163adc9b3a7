// Bytes of activations that are kept with fewer bits.
#pragma once

#include <cstdint>

#include "graph/core/units.hpp"
#include "graph/ir/dtype.hpp"

namespace tidemark {

enum class PackingScheme : std::uint8_t {
  kGact,   // groups over the flattened tensor; scale and minimum in the tensor's type
  kActnn,  // groups within each sample; scale and minimum of 2 bytes
  kFp8,    // COAT: a byte per element, one scale of 2 bytes per group
};

struct PackingOptions {
  PackingScheme scheme = PackingScheme::kGact;
  int bits = 4;
  std::int64_t group = 256;
};

// The parts of a packed tensor.
struct PackedSize {
  Bytes values;
  Bytes statistics;
  [[nodiscard]] Bytes bytes() const { return values + statistics; }
};

// Returns the size of `elements` elements of a type, of `samples` samples. The last group of a
// tensor, or of a sample, is padded. Sources: ucbrise/actnn, GACT-ICML, NVlabs/COAT.
[[nodiscard]] PackedSize packed_size(const PackingOptions& packing, Elements elements, DType type,
                                     std::int64_t samples);

}  // namespace tidemark
