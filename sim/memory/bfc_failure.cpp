// The report of the BFC allocator on a request that it could not meet.
#include <algorithm>

#include "sim/memory/bfc_allocator.hpp"

namespace tidemark {

OutOfMemory out_of_memory(const BfcAllocator& allocator, Bytes requested, std::size_t allocations) {
  const Bytes rounded = BfcAllocator::rounded(requested);
  OutOfMemory report{.requested = requested,
                     .rounded = rounded,
                     .segment = rounded,
                     .device_free = allocator.device_free(),
                     .allowed = allocator.allowed(),
                     .largest_free = allocator.largest_free()};
  const auto owners = owners_of(allocator, allocations);
  std::vector<const BfcChunk*> regions;
  allocator.for_each_chunk([&](const BfcChunk& chunk) {
    if (chunk.previous == nullptr) regions.push_back(&chunk);
  });
  std::sort(regions.begin(), regions.end(),
            [](const BfcChunk* a, const BfcChunk* b) { return a->address < b->address; });
  for (const BfcChunk* region : regions) {
    SegmentSum sum(region->address);
    for (const BfcChunk* chunk = region; chunk != nullptr; chunk = chunk->next) {
      if (const auto owner = owners.find(chunk); owner != owners.end()) {
        sum.add_in_use(chunk->size, owner->second);
      } else {
        sum.add_free(chunk->size);
      }
    }
    sum.close(report);
  }
  sort_by_free(report.partly_free);
  return report;
}

}  // namespace tidemark
