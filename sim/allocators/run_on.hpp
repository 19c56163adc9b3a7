// The event loop on one type of allocator; included by the file that knows the type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "sim/allocators/allocator_model.hpp"
#include "sim/engine/engine.hpp"

namespace tidemark {

// Returns the bytes left for the allocator: none where the process takes more than the device has.
[[nodiscard]] inline Bytes at_least_none(Bytes capacity) {
  return std::max(capacity, Bytes(0));
}

// Tells an allocator with pools by stream which allocations do not come from compute's. Called
// after reserve(). `offset` is added to the allocations' numbers.
template <class A>
void use_pools(A& allocator, const StepProgram& program, std::size_t offset = 0) {
  if constexpr (requires { allocator.use_pool(AllocationId(), std::size_t{1}); }) {
    for (const AllocationId id : ids_of(program.allocations)) {
      const Stream pool = program.allocations[id].pool;
      if (pool == Stream::kCompute) continue;
      allocator.use_pool(AllocationId(id.index() + offset), static_cast<std::size_t>(pool));
    }
  }
}

// Runs the program on an allocator that has reserved its room and, where it runs out of memory,
// asks the allocator for its report.
template <class A>
RunResult run_prepared(A& allocator, const AllocatorRun& on, OutOfMemory* failure) {
  const RunResult result = run(on.program, on.costs, allocator, on.scratch, on.options);
  if (failure != nullptr && result.status == RunStatus::kOutOfMemory) {
    *failure = out_of_memory(allocator, result.requested, on.program.allocations.size());
  }
  return result;
}

// Runs the program on a fresh allocator.
template <class A>
RunResult run_on(A&& allocator, const AllocatorRun& on, OutOfMemory* failure) {
  allocator.reserve(on.program.allocations.size());
  use_pools(allocator, on.program);
  return run_prepared(allocator, on, failure);
}

// Runs ranks together; `make` returns a fresh allocator for each.
template <class Make>
std::vector<RunResult> run_ranks_on(std::span<const AllocatorRun> on,
                                    std::span<OutOfMemory> failures, Make make) {
  using A = typename std::invoke_result_t<Make, const AllocatorRun&>::element_type;
  std::vector<std::unique_ptr<A>> allocators;
  std::vector<Rank<A>> ranks;
  for (const AllocatorRun& run : on) {
    allocators.push_back(make(run));
    allocators.back()->reserve(run.program.allocations.size());
    use_pools(*allocators.back(), run.program);
    ranks.push_back({.program = &run.program,
                     .costs = &run.costs,
                     .allocator = allocators.back().get(),
                     .scratch = &run.scratch,
                     .options = run.options});
  }
  std::vector<RunResult> results = run(std::span<const Rank<A>>(ranks));
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (results[r].status != RunStatus::kOutOfMemory) continue;
    failures[r] =
        out_of_memory(*allocators[r], results[r].requested, on[r].program.allocations.size());
  }
  return results;
}

}  // namespace tidemark
