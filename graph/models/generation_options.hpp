// Options of generation: a prompt goes through the model at once, then each new token alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/ir/dtype.hpp"

namespace tidemark {

// Memory of keys and values.
enum class CacheKind : std::uint8_t {
  kDynamic,  // transformers' DynamicCache: torch.cat makes a longer copy for each token
  kStatic,   // transformers' StaticCache: room for the longest sequence, all of which is read
  kPaged,    // vLLM: blocks of a few tokens from a pool; attention reads those of its sequence
};
inline constexpr std::array<std::string_view, 3> kCacheKinds{"dynamic", "static", "paged"};
[[nodiscard]] constexpr std::string_view name_of(CacheKind kind) {
  return kCacheKinds[static_cast<std::size_t>(kind)];
}

struct GenerationOptions {
  std::int64_t prompt = 512;  // tokens of each sequence that are given
  std::int64_t tokens = 64;   // tokens of each sequence that are generated
  CacheKind cache = CacheKind::kDynamic;
  std::int64_t block = 16;     // tokens per block of a paged cache
  std::optional<DType> dtype;  // type of a paged cache; none: that of the keys
  double utilization = 0.9;    // share of the device that a pool may fill (vLLM's
                               // gpu_memory_utilization); for the number of blocks that fit
  std::int64_t room = 0;       // longest sequence that a static or a paged cache has room for

  // Returns the number of forward passes: the prompt's yields the first token.
  [[nodiscard]] std::int64_t passes() const { return tokens; }
  // Returns the blocks of one sequence in a paged cache.
  [[nodiscard]] std::int64_t blocks() const { return (room + block - 1) / block; }
};

}  // namespace tidemark
