// Rules by which page-locked host memory is handed out.
#pragma once

#include <cstdint>

namespace tidemark {

enum class PageLockedMemory : std::uint8_t {
  kExact,       // to the byte, and given back when freed
  kPool,        // to the byte, kept when freed and reused for the same size
  kPowerOfTwo,  // PyTorch's CachingHostAllocator: kPool with sizes rounded up to powers of two
};

}  // namespace tidemark
