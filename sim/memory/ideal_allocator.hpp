// Counts live bytes: no rounding, no fragmentation, no cache. The lower bound of all allocators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/memory/allocator.hpp"
#include "sim/memory/out_of_memory.hpp"

namespace tidemark {

class IdealAllocator {
 public:
  explicit IdealAllocator(Bytes capacity) : capacity_(capacity.count) {}

  void reserve(std::size_t allocations) { size_.assign(allocations, 0); }
  AllocationResult allocate(AllocationId allocation, std::int64_t bytes) {
    if (active_ + bytes > capacity_) return {.ok = false};
    size_[allocation.index()] = bytes;
    active_ += bytes;
    allocated_ += bytes;
    return {.ok = true};
  }
  AllocationResult allocate_again(AllocationId allocation, std::int64_t bytes) {
    return allocate(allocation, bytes);
  }
  void free(AllocationId allocation) {
    const std::int64_t bytes = size_[allocation.index()];
    active_ -= bytes < 0 ? -bytes : bytes;
    if (bytes > 0) allocated_ -= bytes;
    size_[allocation.index()] = 0;
  }
  // A negative size marks an allocation that waits for events.
  void defer_free(AllocationId allocation) {
    allocated_ -= size_[allocation.index()];
    size_[allocation.index()] = -size_[allocation.index()];
  }
  int release_cached() { return 0; }
  [[nodiscard]] std::int64_t allocated() const { return allocated_; }
  [[nodiscard]] std::int64_t active() const { return active_; }
  [[nodiscard]] std::int64_t reserved() const { return active_; }
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] std::int64_t inactive_split() const { return 0; }
  [[nodiscard]] std::int64_t address(AllocationId /*allocation*/) const { return -1; }

 private:
  std::int64_t capacity_;
  std::int64_t allocated_ = 0;
  std::int64_t active_ = 0;
  std::vector<std::int64_t> size_;
};

static_assert(Allocator<IdealAllocator>);

[[nodiscard]] inline OutOfMemory out_of_memory(const IdealAllocator& allocator, Bytes requested,
                                               std::size_t /*allocations*/) {
  return {.requested = requested,
          .rounded = requested,
          .segment = requested,
          .device_free = Bytes(allocator.capacity() - allocator.reserved())};
}

}  // namespace tidemark
