#include "sim/step/smallest_capacity.hpp"

#include <algorithm>

#include "sim/step/run_compiled.hpp"

namespace tidemark {
namespace {

// Whether the device needs what a run without a limit reserves, and no more. Rules that depend on
// the capacity may ask for more.
bool needs_what_it_reserves(const StepSpec& spec) {
  const TorchAllocatorOptions& torch = spec.allocator_options.torch;
  if (spec.allocator == AllocatorKind::kBfc) return false;
  return !torch.memory_fraction && !torch.expandable_segments;
}

}  // namespace

Bytes smallest_capacity(const StepSpec& spec, const Compiled& compiled, Bytes overhead,
                        const RunResult& unlimited, Bytes too_small) {
  std::int64_t high = unlimited.most_reserved;
  const bool counts_bytes =
      spec.allocator == AllocatorKind::kIdeal || spec.allocator == AllocatorKind::kPacked;
  const bool exact = counts_bytes && compiled.eviction == nullptr;
  std::int64_t low = exact ? high : compiled.eviction != nullptr ? 0 : unlimited.most_live - 1;
  // With rules that depend on the capacity some smaller one may do again; what counts is from where
  // on it fits.
  if (!exact) {
    low = std::max(low, too_small.count);
    high = std::max(high, low + 1);
  }
  Scratch scratch;
  const auto fits = [&](std::int64_t capacity) {
    return run_compiled(spec, compiled, scratch, Bytes(capacity), false).status ==
           RunStatus::kCompleted;
  };
  if (!needs_what_it_reserves(spec)) {
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
