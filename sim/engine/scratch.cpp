#include "sim/engine/scratch.hpp"

#include <algorithm>
#include <bit>

namespace tidemark {
namespace scratch_detail {
namespace {

// Assigns the size classes of the pool of page-locked memory.
void classify(const StepProgram& program, PageLockedMemory page_locked, Scratch& scratch) {
  scratch.size_class.clear();
  scratch.class_bytes.clear();
  scratch.pooled.clear();
  if (page_locked == PageLockedMemory::kExact) return;
  const auto taken = [&](const Allocation& allocation) {
    const auto bytes =
        static_cast<std::uint64_t>(std::max<std::int64_t>(allocation.bytes.count, 1));
    const bool exact = page_locked == PageLockedMemory::kPool;
    return Bytes(static_cast<std::int64_t>(exact ? bytes : std::bit_ceil(bytes)));
  };
  for (const Allocation& allocation : program.allocations) {
    if (allocation.tier == Tier::kHost) scratch.class_bytes.push_back(taken(allocation));
  }
  std::vector<Bytes>& sizes = scratch.class_bytes;
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  scratch.pooled.assign(sizes.size(), 0);
  scratch.size_class.assign(program.allocations.size(), 0);
  for (AllocationId id : ids_of(program.allocations)) {
    const Allocation& allocation = program.allocations[id];
    if (allocation.tier != Tier::kHost) continue;
    const auto at = std::lower_bound(sizes.begin(), sizes.end(), taken(allocation));
    scratch.size_class[id.index()] = static_cast<std::uint32_t>(at - sizes.begin());
  }
}

}  // namespace
}  // namespace scratch_detail

void Scratch::prepare(const StepProgram& program, bool record_events,
                      PageLockedMemory page_locked) {
  scratch_detail::classify(program, page_locked, *this);
  const std::size_t n = program.size();
  started.assign(n, -1);
  finished.assign(n, -1);
  enqueued.assign(n, 0);
  next.assign(n, kNoInstruction);
  previous.assign(n, kNoInstruction);
  events.clear();
  streams = 1;
  for (std::size_t i = 0; i < n; ++i) {
    if (program.opcode[i] == Opcode::kFree) continue;
    streams = std::max<std::size_t>(streams, program.stream[i] + 1U);
  }
  const std::size_t may_be_deferred = deferred.prepare(program);
  if (record_events) events.reserve(2 * program.allocate_instructions + may_be_deferred);
}

std::size_t Scratch::memory_bytes() const {
  const auto held = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return held(started) + held(finished) + held(enqueued) + held(next) + held(previous) +
         held(events) + deferred.memory_bytes();
}

}  // namespace tidemark
