// The memory of a device at the moment at which a request could not be met.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/core/ids.hpp"
#include "sim/memory/bfc_allocator.hpp"
#include "sim/memory/ideal_allocator.hpp"
#include "sim/memory/packing/packed_allocator.hpp"
#include "sim/memory/torch/torch_allocator.hpp"

namespace tidemark {

// A segment that is neither full nor free: what is in use keeps the rest from the device.
//
//   | free |  pin  |     free     | pin |
struct PinnedSegment {
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t free = 0;
  std::int64_t largest_free = 0;  // in one piece
  std::vector<BlockId> pins;      // by address
};

struct OutOfMemory {
  std::int64_t requested = 0;
  std::int64_t rounded = 0;                // as the allocator rounds
  std::int64_t segment = 0;                // bytes that it asked of the device
  std::int64_t device_free = 0;            // that the device could still give
  std::optional<std::int64_t> allowed;     // to be reserved, by memory_fraction
  std::int64_t largest_free = 0;           // block that the request could have had
  std::int64_t free_in_segments = 0;       // reserved, but neither in use nor waiting for events
  std::vector<PinnedSegment> partly_free;  // those with most free bytes first
  std::string message;                     // the allocator's own; empty where it has none
};

// After run() has ended with RunStatus::kOutOfMemory for a block of `requested` bytes. `blocks`:
// those of the program. Of the ideal and the packed allocator, which know no segments, only the
// amounts are filled.
[[nodiscard]] OutOfMemory out_of_memory(const TorchAllocator& allocator, std::int64_t requested,
                                        std::size_t blocks);
[[nodiscard]] OutOfMemory out_of_memory(const BfcAllocator& allocator, std::int64_t requested,
                                        std::size_t blocks);
[[nodiscard]] OutOfMemory out_of_memory(const IdealAllocator& allocator, std::int64_t requested,
                                        std::size_t blocks);
[[nodiscard]] OutOfMemory out_of_memory(const PackedAllocator& allocator, std::int64_t requested,
                                        std::size_t blocks);

}  // namespace tidemark
