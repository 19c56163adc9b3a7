// Bytes of packed activations against the formats of ActNN, GACT and COAT.
#include "policies/compress/packed_size.hpp"

#include <vector>

#include <doctest/doctest.h>

namespace tidemark::packed_size_test {

TEST_SUITE("unit") {
  TEST_CASE("values and statistics of groups, by scheme") {
    constexpr Elements kElements{8 * 64 * 112 * 112};  // 25,088 groups of 256
    struct Row {
      PackingOptions packing;
      DType type;
      std::int64_t values, statistics;
    };
    for (const Row& row :
         std::vector<Row>{// GACT: scale and minimum in the tensor's type: 25,088 x 2 x 4.
                          {{PackingScheme::kGact, 4, 256}, DType::kFloat32, 3211264, 200704},
                          {{PackingScheme::kGact, 3, 256}, DType::kFloat32, 2408448, 200704},
                          {{PackingScheme::kGact, 2, 256}, DType::kFloat16, 1605632, 100352},
                          // ActNN: 2 bytes each whatever the type.
                          {{PackingScheme::kActnn, 2, 256}, DType::kFloat32, 1605632, 100352},
                          // COAT: one scale of 2 bytes per 16 elements.
                          {{PackingScheme::kFp8, 8, 16}, DType::kBFloat16, 6422528, 802816}}) {
      const PackedSize size = packed_size(row.packing, kElements, row.type, 8);
      CHECK(size.values == Bytes(row.values));
      CHECK(size.statistics == Bytes(row.statistics));
    }
  }

  TEST_CASE("ActNN pads each sample to whole groups, GACT only the tensor") {
    // 3 samples of 300 elements: 2 groups each, or ceil(900 / 256) = 4 of all.
    CHECK(packed_size({PackingScheme::kActnn, 8, 256}, Elements(900), DType::kFloat32, 3).values ==
          Bytes(6 * 256));
    CHECK(packed_size({PackingScheme::kGact, 8, 256}, Elements(900), DType::kFloat32, 3).values ==
          Bytes(4 * 256));
  }
}

}  // namespace tidemark::packed_size_test
