// Rules by which page-locked host memory is handed out.
#pragma once

#include <cstdint>

namespace tidemark {

enum class PageLockedMemory : std::uint8_t {
  kExact,       // takes bytes exactly and gives them back when freed
  kPool,        // takes bytes exactly and keeps freed ones for requests of the same size
  kPowerOfTwo,  // PyTorch's CachingHostAllocator: kPool with sizes rounded up to powers of two
};

}  // namespace tidemark
