// The calls of a program on one type of allocator; included by the file that knows the type.
#pragma once

#include <cstddef>
#include <span>

#include "sim/allocators/allocator_model.hpp"
#include "sim/allocators/run_on.hpp"

namespace tidemark {

// Makes the calls of steps, one by one.
template <class A>
class CallLoop {
 public:
  CallLoop(A& allocator, const CallRun& on)
      : allocator_(allocator), on_(on), names_(on.program.allocations.size()) {}

  CalledSteps run() {
    const int own = on_.calls.steps();
    CalledSteps result;
    for (int step = 0; step < own; ++step) {
      if (!run_step(on_.calls.of_step(step), 0, result)) return result;
    }
    if (!on_.calls.further) return result;
    for (int steps = own; 2 * steps <= on_.limit && !converged_step(result.steps); steps *= 2) {
      for (int step = steps; step < 2 * steps; ++step) {
        const auto odd = static_cast<std::size_t>(step - own + 1) % 2;
        if (!run_step(*on_.calls.further, odd, result)) return result;
      }
    }
    return result;
  }

 private:
  // Further steps name their allocations in turn by one half of the names and the other, as what
  // one step leaves is freed in the next.
  bool run_step(std::span<const AllocatorCall> calls, std::size_t odd, CalledSteps& result) {
    const Bytes before = result.steps.empty() ? Bytes(0) : result.steps.back().end;
    StepReserved& step = result.steps.emplace_back(StepReserved{.peak = before, .end = before});
    for (const AllocatorCall call : calls) {
      const std::size_t half = call.of_step_before() ? 1 - odd : odd;
      const AllocationId name(call.allocation().index() + half * names_);
      if (call.frees()) {
        allocator_.free(name);
      } else if (!allocate(name, on_.program.allocations[call.allocation()].bytes)) {
        result.fails_in = static_cast<int>(result.steps.size()) - 1;
        return false;
      }
      step.end = allocator_.reserved();
      step.peak = std::max(step.peak, step.end);
    }
    return true;
  }

  bool allocate(AllocationId name, Bytes bytes) {
    if (allocator_.allocate(name, bytes).ok) return true;
    static_cast<void>(allocator_.release_cached());
    return allocator_.allocate_again(name, bytes).ok;
  }

  A& allocator_;
  const CallRun& on_;
  std::size_t names_;
};

template <class A>
CalledSteps make_calls_on(A&& allocator, const CallRun& on) {
  const std::size_t names = on.program.allocations.size();
  allocator.reserve(2 * names);
  use_pools(allocator, on.program);
  use_pools(allocator, on.program, names);
  return CallLoop<std::remove_reference_t<A>>(allocator, on).run();
}

}  // namespace tidemark
