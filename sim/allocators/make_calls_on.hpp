// The calls of a program on one type of allocator; included by the file that knows the type.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/allocators/allocator_model.hpp"
#include "sim/allocators/run_on.hpp"

namespace tidemark {

// Makes the calls of steps, one by one.
template <class A>
class CallLoop {
 public:
  CallLoop(A& allocator, const CallRun& on)
      : allocator_(allocator), on_(on), names_(on.program.allocations.size()) {}

  // `made`: the memory that the steps reserved whose calls the allocator has had, all of the
  // program's own or none.
  CalledSteps run(std::vector<StepReserved> made = {}) {
    const int own = on_.calls.steps();
    CalledSteps result{.steps = std::move(made)};
    for (int step = static_cast<int>(result.steps.size()); step < own; ++step) {
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
      } else if (!allocate(name, on_.program.allocations[call.allocation()].bytes, result)) {
        result.fails_in = static_cast<int>(result.steps.size()) - 1;
        return false;
      }
      step.end = allocator_.reserved();
      step.peak = std::max(step.peak, step.end);
    }
    return true;
  }

  bool allocate(AllocationId name, Bytes bytes, CalledSteps& result) {
    if (allocator_.allocate(name, bytes).ok) return true;
    result.retried = true;
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

// An allocator that has room for the names of further steps.
template <class A>
class LeftAllocator final : public AllocatorAfterRun {
 public:
  template <class... Arguments>
  explicit LeftAllocator(Arguments&&... arguments)
      : allocator_(std::forward<Arguments>(arguments)...) {}

  RunResult run(const AllocatorRun& on, OutOfMemory* failure) {
    const std::size_t names = on.program.allocations.size();
    allocator_.reserve(2 * names);
    use_pools(allocator_, on.program);
    use_pools(allocator_, on.program, names);
    return run_prepared(allocator_, on, failure);
  }
  [[nodiscard]] CalledSteps make_further_calls(const CallRun& calls,
                                               std::vector<StepReserved> made) override {
    return CallLoop<A>(allocator_, calls).run(std::move(made));
  }

 private:
  A allocator_;
};

// Runs the program on a fresh allocator, as run_on() does, which is kept where it is asked for.
template <class A, class... Arguments>
RunResult run_and_keep(const AllocatorRun& on, OutOfMemory* failure, Arguments&&... arguments) {
  if (on.after == nullptr) return run_on(A(std::forward<Arguments>(arguments)...), on, failure);
  auto left = std::make_unique<LeftAllocator<A>>(std::forward<Arguments>(arguments)...);
  const RunResult result = left->run(on, failure);
  *on.after = std::move(left);
  return result;
}

}  // namespace tidemark
