// Counts live bytes: no rounding, no fragmentation, no cache. The lower bound of all allocators.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/memory/allocator.hpp"
#include "sim/memory/out_of_memory.hpp"

namespace tidemark {

class IdealAllocator {
 public:
  explicit IdealAllocator(Bytes capacity) : capacity_(capacity) {}

  void reserve(std::size_t allocations) { size_.assign(allocations, Bytes(0)); }
  AllocationResult allocate(AllocationId allocation, Bytes bytes) {
    if (active_ + bytes > capacity_) return {.ok = false};
    size_[allocation.index()] = bytes;
    active_ += bytes;
    allocated_ += bytes;
    return {.ok = true};
  }
  AllocationResult allocate_again(AllocationId allocation, Bytes bytes) {
    return allocate(allocation, bytes);
  }
  void free(AllocationId allocation) {
    const Bytes bytes = size_[allocation.index()];
    active_ -= bytes < Bytes(0) ? -bytes : bytes;
    if (bytes > Bytes(0)) allocated_ -= bytes;
    size_[allocation.index()] = Bytes(0);
  }
  // A negative size marks an allocation that waits for events.
  void defer_free(AllocationId allocation) {
    allocated_ -= size_[allocation.index()];
    size_[allocation.index()] = -size_[allocation.index()];
  }
  int release_cached() { return 0; }
  [[nodiscard]] Bytes allocated() const { return allocated_; }
  [[nodiscard]] Bytes active() const { return active_; }
  [[nodiscard]] Bytes reserved() const { return active_; }
  [[nodiscard]] Bytes capacity() const { return capacity_; }
  [[nodiscard]] Bytes inactive_split() const { return Bytes(0); }
  [[nodiscard]] Bytes address(AllocationId /*allocation*/) const { return Bytes(-1); }

 private:
  Bytes capacity_;
  Bytes allocated_;
  Bytes active_;
  std::vector<Bytes> size_;
};

static_assert(Allocator<IdealAllocator>);

[[nodiscard]] inline OutOfMemory out_of_memory(const IdealAllocator& allocator, Bytes requested,
                                               std::size_t /*allocations*/) {
  return {.requested = requested,
          .rounded = requested,
          .segment = requested,
          .device_free = allocator.capacity() - allocator.reserved()};
}

}  // namespace tidemark
