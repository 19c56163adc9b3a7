#include "sim/step/smallest_capacity.hpp"

#include <algorithm>
#include <optional>

#include "sim/step/run_compiled.hpp"

namespace tidemark {
namespace smallest_capacity_detail {
namespace {

// Returns the program of more steps that runs out of so much memory where `compiled` does not; null
// if none does.
const Compiled* failing_later(LongerPrograms& longer, const Compiled& compiled,
                              const AllocatorCalls* calls, Bytes usable, int limit) {
  const StepSpec& spec = longer.spec();
  if (limit == 0 || !spec.allocator->traits().has_segments) return nullptr;
  // At the least memory that eviction runs in, a step is repeated many times over; the figure is
  // that of the configured steps.
  if (compiled.eviction != nullptr) return nullptr;
  if (calls != nullptr && calls->further) {
    const std::optional<CalledSteps> called = make_calls(spec, compiled, calls, usable, limit);
    if (called && (!called->fails_in || *called->fails_in < calls->steps())) return nullptr;
  }
  Scratch scratch;
  const RunResult run = run_compiled(spec, compiled, scratch, usable, true);
  if (run.status != RunStatus::kCompleted) return nullptr;
  return find_convergence(longer, compiled, calls, scratch, usable, limit).failing;
}

}  // namespace
}  // namespace smallest_capacity_detail

Bytes smallest_capacity(const StepSpec& spec, const Compiled& compiled, const AllocatorCalls* calls,
                        Bytes overhead, const RunResult& unlimited, Bytes too_small) {
  std::int64_t high = unlimited.most_reserved.count;
  const bool exact = !spec.allocator->traits().has_segments && compiled.eviction == nullptr;
  std::int64_t low = exact                          ? high
                     : compiled.eviction != nullptr ? 0
                                                    : unlimited.most_live.count - 1;
  // With rules that depend on the capacity a smaller one may suffice again by chance; the result is
  // the capacity from which on the program fits.
  if (!exact) {
    low = std::max(low, too_small.count);
    high = std::max(high, low + 1);
  }
  Scratch scratch;
  const auto fits = [&](std::int64_t capacity) {
    const std::optional<CalledSteps> called =
        make_calls(spec, compiled, calls, Bytes(capacity), compiled.order.steps);
    if (called) return !called->fails_in;
    return run_compiled(spec, compiled, scratch, Bytes(capacity), false).status ==
           RunStatus::kCompleted;
  };
  if (!spec.allocator->needs_what_it_reserves()) {
    constexpr int kAttempts = 64;
    int attempts = 0;
    while (!fits(high) && ++attempts < kAttempts)
      high += high / 8 + kMiB.count;
    if (attempts == kAttempts) return Bytes(0);
  }
  // Half of all steps take all that a run without a limit reserves: one run shows it.
  const bool probes = compiled.eviction == nullptr && high - low > 2 * kMiB.count;
  if (probes && !fits(high - kMiB.count)) return Bytes(high) + overhead;
  while (high - low > kMiB.count) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return Bytes(high) + overhead;
}

Bytes lasting_capacity(LongerPrograms& longer, const Compiled& compiled,
                       const AllocatorCalls* calls, Bytes overhead, RunResult unlimited,
                       Bytes too_small, int limit) {
  const StepSpec& spec = longer.spec();
  std::optional<AllocatorCalls> of_longer;
  for (const Compiled* program = &compiled;;) {
    const Bytes smallest = smallest_capacity(spec, *program, calls, overhead, unlimited, too_small);
    program = smallest_capacity_detail::failing_later(longer, *program, calls, smallest - overhead,
                                                      limit);
    if (program == nullptr) return smallest;
    Scratch scratch;
    unlimited = run_compiled(spec, *program, scratch, kUnlimited, false);
    of_longer = allocator_calls(program->program, program->order);
    calls = of_longer ? &*of_longer : nullptr;
  }
}

}  // namespace tidemark
