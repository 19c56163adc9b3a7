// The memory of a device at the moment at which a request could not be met. Each allocator has a
// function out_of_memory(allocator, requested, allocations) beside it: after run() has ended with
// RunStatus::kOutOfMemory for an allocation of `requested` bytes, in a program of so many
// allocations.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/core/ids.hpp"
#include "graph/core/units.hpp"

namespace tidemark {

// A segment that is neither full nor free: blocks in use keep the rest from the device.
//
//   | free | in use |     free     | in use |
struct PartlyUsedSegment {
  Bytes address;
  Bytes size;
  Bytes free;
  Bytes largest_free;                // largest free piece
  std::vector<AllocationId> in_use;  // allocations in use, by address
};

// Allocators that know no segments fill the amounts only.
struct OutOfMemory {
  Bytes requested;
  Bytes rounded;                 // request as the allocator rounds it
  Bytes segment;                 // asked of the device for the request
  Bytes device_free;             // left on the device
  std::optional<Bytes> allowed;  // may be reserved, by memory_fraction
  Bytes largest_free;            // largest free block that the request could have had
  Bytes free_in_segments;        // reserved, but neither in use nor waiting for events
  std::vector<PartlyUsedSegment> partly_free;  // segments with most free bytes first
  std::string message;  // the allocator's own message; empty where it has none
};

// The allocations of a program by the piece of memory that each was given.
template <class A>
[[nodiscard]] auto owners_of(const A& allocator, std::size_t allocations) {
  std::unordered_map<decltype(allocator.given(AllocationId())), AllocationId> owners;
  for (std::size_t b = 0; b < allocations; ++b) {
    const AllocationId allocation(b);
    if (const auto* piece = allocator.given(allocation)) owners.emplace(piece, allocation);
  }
  return owners;
}

// Adds up the pieces of one segment in the order of their addresses.
class SegmentSum {
 public:
  explicit SegmentSum(Bytes address) { segment_.address = address; }
  void add_free(Bytes bytes);
  void add_in_use(Bytes bytes, AllocationId allocation);
  void close(OutOfMemory& report);  // called when the segment is complete

 private:
  PartlyUsedSegment segment_;
};
void sort_by_free(std::vector<PartlyUsedSegment>& segments);

}  // namespace tidemark
