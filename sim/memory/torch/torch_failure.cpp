// The report of PyTorch's allocator on a request that it could not meet.
#include "sim/memory/torch/torch_allocator.hpp"

namespace tidemark {

OutOfMemory out_of_memory(const TorchAllocator& allocator, Bytes requested,
                          std::size_t allocations) {
  const TorchCachingAllocator& core = allocator.core();
  const std::int64_t rounded = core.rounded(requested.count);
  const std::int64_t largest_free = core.largest_free(requested.count, allocator.stream());
  OutOfMemory report{.requested = requested,
                     .rounded = Bytes(rounded),
                     .segment = Bytes(TorchCachingAllocator::segment_size(rounded)),
                     .device_free = Bytes(core.out_of_memory().device_free),
                     .largest_free = Bytes(largest_free)};
  if (core.out_of_memory().allowed) report.allowed = Bytes(*core.out_of_memory().allowed);
  const auto owners = owners_of(allocator, allocations);
  for (const TorchSegment& segment : core.segments()) {
    SegmentSum sum(segment.address);
    for (const TorchBlock* block : segment.blocks) {
      if (block->is_idle()) {
        sum.add_free(Bytes(block->size));
      } else {
        sum.add_in_use(Bytes(block->size), owners.at(block));
      }
    }
    sum.close(report);
  }
  sort_by_free(report.partly_free);
  report.message = message_of(core.out_of_memory());
  return report;
}

}  // namespace tidemark
