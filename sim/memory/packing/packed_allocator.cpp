#include "sim/memory/packing/packed_allocator.hpp"

#include <algorithm>

#include "sim/memory/packing/greedy.hpp"

namespace tidemark {
namespace packed_allocator_detail {
namespace {

Bytes aligned(Bytes bytes) {
  return round_up(std::max(bytes, Bytes(1)), kPackedAlignment);
}

}  // namespace
}  // namespace packed_allocator_detail

PackingProblem packing_problem(const StepProgram& program, std::vector<AllocationId>& allocations) {
  constexpr std::uint32_t kNoBuffer = Id<void>::kNone;
  const auto end = static_cast<std::int64_t>(program.size());
  PackingProblem problem;
  allocations.clear();
  IdVector<AllocationId, std::uint32_t> buffer_of(program.allocations.size(), kNoBuffer);
  for (std::size_t i = 0; i < program.size(); ++i) {
    const AllocationId allocation(program.subject[i]);
    if (program.opcode[i] == Opcode::kAllocate) {
      if (program.allocations[allocation].tier != Tier::kDevice) continue;
      buffer_of[allocation] = static_cast<std::uint32_t>(allocations.size());
      problem.buffers.push_back(
          {.lower = static_cast<std::int64_t>(i),
           .upper = end,
           .size = packed_allocator_detail::aligned(program.allocations[allocation].bytes)});
      allocations.push_back(allocation);
    } else if (program.opcode[i] == Opcode::kFree && buffer_of[allocation] != kNoBuffer) {
      problem.buffers[buffer_of[allocation]].upper = static_cast<std::int64_t>(i);
    }
  }
  return problem;
}

PackedPlacement place_program(const StepProgram& program) {
  std::vector<AllocationId> allocations;
  const PackingProblem problem = packing_problem(program, allocations);
  PackedPlacement placement;
  placement.address = IdVector<AllocationId, Bytes>(program.allocations.size(), Bytes(-1));
  placement.lower_bound = most_live_bytes(problem);
  const Packing packing = best_greedy(problem, placement.lower_bound);
  placement.height = packing.height;
  for (std::size_t i = 0; i < allocations.size(); ++i)
    placement.address[allocations[i]] = packing.offsets[i];
  return placement;
}

void PackedAllocator::reserve(std::size_t allocations) {
  size_.assign(allocations, Bytes(0));
  late_.reserve(allocations);
}

bool PackedAllocator::in_use(Bytes begin, Bytes end) const {
  return std::any_of(late_.begin(), late_.end(), [&](std::uint32_t late) {
    const Bytes other = placement_.address[AllocationId(late)];
    return other < end && begin < other + size_[late];
  });
}

AllocationResult PackedAllocator::allocate(AllocationId allocation, Bytes bytes) {
  const Bytes size = packed_allocator_detail::aligned(bytes);
  const Bytes begin = placement_.address[allocation];
  if (begin + size > capacity_ || in_use(begin, begin + size)) return {.ok = false};
  const int taken = reserved_ == Bytes(0) ? 1 : 0;
  reserved_ = std::min(placement_.height, capacity_);
  size_[allocation.index()] = size;
  allocated_ += size;
  active_ += size;
  return {.ok = true, .device_mallocs = taken};
}

void PackedAllocator::free(AllocationId allocation) {
  const auto late = std::find(late_.begin(), late_.end(), allocation.value);
  const Bytes size = size_[allocation.index()];
  active_ -= size;
  if (late == late_.end()) {
    allocated_ -= size;
  } else {
    late_.erase(late);
  }
  size_[allocation.index()] = Bytes(0);
}

void PackedAllocator::defer_free(AllocationId allocation) {
  allocated_ -= size_[allocation.index()];
  late_.push_back(allocation.value);
}

OutOfMemory out_of_memory(const PackedAllocator& allocator, Bytes requested,
                          std::size_t /*allocations*/) {
  const Bytes rounded = packed_allocator_detail::aligned(requested);
  return {.requested = requested,
          .rounded = rounded,
          .segment = rounded,
          .device_free = allocator.capacity() - allocator.reserved(),
          .free_in_segments = allocator.reserved() - allocator.active()};
}

}  // namespace tidemark
