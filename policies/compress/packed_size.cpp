#include "policies/compress/packed_size.hpp"

#include <algorithm>

namespace tidemark {

PackedSize packed_size(const PackingOptions& packing, Elements elements, DType type,
                       std::int64_t samples) {
  constexpr DType kStatistic = DType::kFloat16;  // or bf16
  const bool by_sample = packing.scheme == PackingScheme::kActnn;
  const std::int64_t parts = by_sample ? std::max<std::int64_t>(samples, 1) : 1;
  const std::int64_t per_part = (elements.count + parts - 1) / parts;
  const std::int64_t groups = parts * ((per_part + packing.group - 1) / packing.group);
  if (packing.scheme == PackingScheme::kFp8)
    return {Bytes(elements.count), bytes_of(kStatistic, Elements(groups))};
  const std::int64_t padded = groups * packing.group;
  const Elements statistics(2 * groups);
  return {Bytes((padded * packing.bits + 7) / 8),
          bytes_of(by_sample ? kStatistic : type, statistics)};
}

}  // namespace tidemark
