// Sizes of key-value caches.
#include "graph/models/generation/kv_cache.hpp"

#include <doctest/doctest.h>

namespace tidemark::kv_cache_test {

TEST_SUITE("unit") {
  TEST_CASE("the cache of 32 layers with 8 heads of 128 for keys and values") {
    KeyValueCache cache{.layers = 32, .kv_heads = 8, .head_width = 128};
    CHECK(cache.per_token_and_layer() == Bytes(4096));      // 2 x 8 x 128 x 2
    CHECK(cache.whole(64, 1000) == Bytes(8388608000));      // x 32 x 1,000 x 64
    CHECK(cache.paged(64, 1000, 16) == Bytes(8455716864));  // 63 blocks of 16 tokens
    CHECK(cache.replaced(64, 1000) == Bytes(262144000));    // one layer
    CHECK(cache.paged(3, 777, 16) == Bytes(308281344));     // 49 blocks
    cache.dtype = DType::kFloat8;
    CHECK(cache.per_token_and_layer() == Bytes(2048));
    CHECK(cache.whole(8, 4096) == Bytes(2147483648));
    CHECK(cache.paged(8, 4096, 16) == cache.whole(8, 4096));  // 256 whole blocks
  }

  TEST_CASE("latent attention keeps one vector per token") {
    // DeepSeek-V3: rank 512 and 64 rotary elements, not twice.
    const KeyValueCache cache{.layers = 61, .latent_width = 576};
    CHECK(cache.per_token_and_layer() == Bytes(1152));
  }
}

}  // namespace tidemark::kv_cache_test
