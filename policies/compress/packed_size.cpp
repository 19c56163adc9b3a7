#include "policies/compress/packed_size.hpp"

#include <algorithm>

namespace tidemark {

PackedSize packed_size(const PackingOptions& packing, Elements elements, Bytes element,
                       std::int64_t samples) {
  constexpr Bytes kHalf{2};  // bf16 or fp16
  const bool by_sample = packing.scheme == PackingScheme::kActnn;
  const std::int64_t parts = by_sample ? std::max<std::int64_t>(samples, 1) : 1;
  const std::int64_t per_part = (elements.count + parts - 1) / parts;
  const std::int64_t groups = parts * ((per_part + packing.group - 1) / packing.group);
  if (packing.scheme == PackingScheme::kFp8) return {Bytes(elements.count), kHalf * groups};
  const std::int64_t padded = groups * packing.group;
  const Bytes statistic = by_sample ? kHalf : element;
  return {Bytes((padded * packing.bits + 7) / 8), statistic * (2 * groups)};
}

}  // namespace tidemark
