// A whole step program packed ahead of time, and the allocator that hands out what was planned.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/memory/allocator.hpp"
#include "sim/memory/out_of_memory.hpp"
#include "sim/memory/packing/problem.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// Addresses of the program's device allocations; each is live from its allocation to its free in
// issue order, or to the end. Sizes are rounded up to kPackedAlignment.
struct PackedPlacement {
  IdVector<AllocationId, Bytes> address;  // -1: not on the device
  Bytes height;
  Bytes lower_bound;  // the most rounded bytes live at one instruction
};

// The alignment of cudaMalloc and PyTorch's allocator; vectorised kernels rely on it.
inline constexpr Bytes kPackedAlignment{512};

// Returns intervals of instructions, in the order of the allocations; `allocations` receives the
// allocation of each.
[[nodiscard]] PackingProblem packing_problem(const StepProgram& program,
                                             std::vector<AllocationId>& allocations);
// Returns the best of the greedy packings: milliseconds, where the search would take seconds.
[[nodiscard]] PackedPlacement place_program(const StepProgram& program);

// One region of the placement's height, taken at the first allocation. An allocation whose planned
// bytes another stream still uses (its free waits for events) cannot be handed out: the caller
// waits for the events and asks again. A placement higher than the capacity fails at the first
// allocation that ends above it.
class PackedAllocator {
 public:
  // `placement` must outlive the allocator.
  PackedAllocator(const PackedPlacement& placement, Bytes capacity)
      : placement_(placement), capacity_(capacity) {}

  void reserve(std::size_t allocations);
  AllocationResult allocate(AllocationId allocation, Bytes bytes);
  AllocationResult allocate_again(AllocationId allocation, Bytes bytes) {
    return allocate(allocation, bytes);
  }
  void free(AllocationId allocation);
  void defer_free(AllocationId allocation);
  int release_cached() { return 0; }
  [[nodiscard]] Bytes allocated() const { return allocated_; }
  [[nodiscard]] Bytes active() const { return active_; }
  [[nodiscard]] Bytes reserved() const { return reserved_; }
  [[nodiscard]] Bytes capacity() const { return capacity_; }
  // Nothing is split: the one region stays whole until the end.
  [[nodiscard]] Bytes inactive_split() const { return reserved_ - active_; }
  [[nodiscard]] Bytes address(AllocationId allocation) const {
    return placement_.address[allocation];
  }

 private:
  [[nodiscard]] bool in_use(Bytes begin, Bytes end) const;

  const PackedPlacement& placement_;
  Bytes capacity_;
  Bytes allocated_;
  Bytes active_;
  Bytes reserved_;
  std::vector<Bytes> size_;          // rounded size of each allocation
  std::vector<std::uint32_t> late_;  // allocations that wait for events
};

static_assert(Allocator<PackedAllocator>);

// Returns a report without segments, since there is only one region.
[[nodiscard]] OutOfMemory out_of_memory(const PackedAllocator& allocator, Bytes requested,
                                        std::size_t allocations);

}  // namespace tidemark
