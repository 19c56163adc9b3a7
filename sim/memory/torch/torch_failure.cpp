// The report of PyTorch's allocator on a request that it could not meet.
#include "sim/memory/torch/torch_allocator.hpp"

namespace tidemark {

OutOfMemory out_of_memory(const TorchAllocator& allocator, Bytes requested,
                          std::size_t allocations) {
  const TorchCachingAllocator& core = allocator.core();
  const Bytes rounded = core.rounded(requested);
  OutOfMemory report{.requested = requested,
                     .rounded = rounded,
                     .segment = TorchCachingAllocator::segment_size(rounded),
                     .device_free = core.out_of_memory().device_free,
                     .allowed = core.out_of_memory().allowed,
                     .largest_free = core.largest_free(requested, allocator.stream())};
  const auto owners = owners_of(allocator, allocations);
  for (const TorchSegment& segment : core.segments()) {
    SegmentSum sum(segment.address);
    for (const TorchBlock* block : segment.blocks) {
      if (block->is_idle()) {
        sum.add_free(block->size);
      } else {
        sum.add_in_use(block->size, owners.at(block));
      }
    }
    sum.close(report);
  }
  sort_by_free(report.partly_free);
  report.message = message_of(core.out_of_memory());
  return report;
}

}  // namespace tidemark
