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
  IdVector<AllocationId, std::int64_t> address;  // -1: not on the device
  std::int64_t height = 0;
  std::int64_t lower_bound = 0;  // the most rounded bytes live at one instruction
};

// The alignment of cudaMalloc and PyTorch's allocator; vectorised kernels rely on it.
inline constexpr std::int64_t kPackedAlignment = 512;

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
      : placement_(placement), capacity_(capacity.count) {}

  void reserve(std::size_t allocations);
  AllocationResult allocate(AllocationId allocation, std::int64_t bytes);
  AllocationResult allocate_again(AllocationId allocation, std::int64_t bytes) {
    return allocate(allocation, bytes);
  }
  void free(AllocationId allocation);
  void defer_free(AllocationId allocation);
  int release_cached() { return 0; }
  [[nodiscard]] std::int64_t allocated() const { return allocated_; }
  [[nodiscard]] std::int64_t active() const { return active_; }
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }
  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  // Nothing is split: the one region stays whole until the end.
  [[nodiscard]] std::int64_t inactive_split() const { return reserved_ - active_; }
  [[nodiscard]] std::int64_t address(AllocationId allocation) const {
    return placement_.address[allocation];
  }

 private:
  [[nodiscard]] bool in_use(std::int64_t begin, std::int64_t end) const;

  const PackedPlacement& placement_;
  std::int64_t capacity_;
  std::int64_t allocated_ = 0;
  std::int64_t active_ = 0;
  std::int64_t reserved_ = 0;
  std::vector<std::int64_t> size_;   // by allocation, rounded
  std::vector<std::uint32_t> late_;  // allocations that wait for events
};

static_assert(Allocator<PackedAllocator>);

// Returns a report without segments, since there is only one region.
[[nodiscard]] OutOfMemory out_of_memory(const PackedAllocator& allocator, Bytes requested,
                                        std::size_t allocations);

}  // namespace tidemark
