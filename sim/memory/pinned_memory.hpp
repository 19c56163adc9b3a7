// How pinned host memory is handed out.
#pragma once

#include <cstdint>

namespace tidemark {

enum class PinnedMemory : std::uint8_t {
  kExact,       // to the byte, and given back when freed
  kPool,        // to the byte, kept when freed and reused for the same size
  kPowerOfTwo,  // PyTorch's CachingHostAllocator: the next power of two, kept and reused by it
};

}  // namespace tidemark
