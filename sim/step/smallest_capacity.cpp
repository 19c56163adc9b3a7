#include "sim/step/smallest_capacity.hpp"

#include <algorithm>

#include "sim/step/run_compiled.hpp"

namespace tidemark {

Bytes smallest_capacity(const StepSpec& spec, const Compiled& compiled, Bytes overhead,
                        const RunResult& unlimited, Bytes too_small) {
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
  while (high - low > kMiB.count) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return Bytes(high) + overhead;
}

}  // namespace tidemark
