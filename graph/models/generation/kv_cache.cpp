#include "graph/models/generation/kv_cache.hpp"

namespace tidemark {

Bytes KeyValueCache::per_token_and_layer() const {
  const std::int64_t elements = latent_width > 0 ? latent_width : 2 * kv_heads * head_width;
  return bytes_of(dtype, Elements(elements));
}

Bytes KeyValueCache::whole(std::int64_t batch, std::int64_t tokens) const {
  return replaced(batch, tokens) * layers;
}

Bytes KeyValueCache::paged(std::int64_t batch, std::int64_t tokens, std::int64_t block) const {
  const std::int64_t blocks = (tokens + block - 1) / block;
  return per_token_and_layer() * (blocks * block * batch * layers);
}

Bytes KeyValueCache::replaced(std::int64_t batch, std::int64_t tokens) const {
  return per_token_and_layer() * (tokens * batch);
}

}  // namespace tidemark
