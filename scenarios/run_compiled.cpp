#include "scenarios/run_compiled.hpp"

#include <algorithm>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace {

// Whether the device needs what a run without a limit reserves, and no more. Rules that depend on
// the capacity may ask for more.
bool needs_what_it_reserves(const Scenario& scenario) {
  const TorchAllocatorOptions& torch = scenario.allocator_options.torch;
  if (scenario.allocator == AllocatorKind::kBfc) return false;
  return !torch.memory_fraction && !torch.expandable_segments;
}

RunOptions options_of(const Scenario& scenario, const Compiled& compiled, bool limited,
                      bool record) {
  return {.host_capacity = limited ? scenario.device.host.memory : kUnlimited,
          .nvme_capacity = limited ? scenario.device.nvme.capacity : kUnlimited,
          .pinned = scenario.pinned,
          .eviction = limited ? compiled.eviction : nullptr,
#ifndef NDEBUG
          .check_contents = true,
#endif
          .record_events = record};
}

// Instructions of a run that only looks for convergence: about a second to build.
constexpr std::size_t kLongestRun = 1'000'000;

}  // namespace

BfcOptions bfc_options(const Scenario& scenario, Bytes capacity) {
  BfcOptions options = scenario.allocator_options.bfc;
  options.allow_growth = options.allow_growth || capacity >= kUnlimited;
  return options;
}

RunResult run_compiled(const Scenario& scenario, const Compiled& compiled, Scratch& scratch,
                       Bytes capacity, bool record, OutOfMemory* failure) {
  scratch.prepare(compiled.program, record, scenario.pinned);
  const bool limited = capacity < kUnlimited;
  const RunOptions options = options_of(scenario, compiled, limited, record);
  const auto go = [&](auto&& allocator) {
    allocator.reserve(compiled.program.blocks.size());
    const RunResult result = run(compiled.program, compiled.costs, allocator, scratch, options);
    if (failure != nullptr && result.status == RunStatus::kOutOfMemory) {
      *failure = out_of_memory(allocator, result.requested, compiled.program.blocks.size());
    }
    return result;
  };
  // Where the context takes more than the device has, nothing is left.
  const Bytes left(std::max<std::int64_t>(capacity.count, 0));
  switch (scenario.allocator) {
    case AllocatorKind::kIdeal:
      return go(IdealAllocator(left));
    case AllocatorKind::kTorch:
      return go(TorchAllocator(capacity, scenario.allocator_options.torch,
                               bytes_beside_allocator(scenario)));
    case AllocatorKind::kPacked:
      return go(PackedAllocator(compiled.placement, left));
    case AllocatorKind::kBfc:
      return go(BfcAllocator(left, bfc_options(scenario, capacity)));
  }
  throw InternalError("an allocator that the engine does not know");
}

Bytes bytes_beside_allocator(const Scenario& scenario) {
  if (scenario.allocator == AllocatorKind::kIdeal) return Bytes(0);
  const FrameworkProfile& framework = scenario.device.framework;
  return framework.context + (scenario.count > 1 ? framework.communication_buffers : Bytes(0));
}

std::int64_t smallest_capacity(const Scenario& scenario, const Compiled& compiled, Bytes context,
                               const RunResult& unlimited, Bytes too_small) {
  std::int64_t high = unlimited.most_reserved;
  const bool counts_bytes =
      scenario.allocator == AllocatorKind::kIdeal || scenario.allocator == AllocatorKind::kPacked;
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
    return run_compiled(scenario, compiled, scratch, Bytes(capacity), false).status ==
           RunStatus::kCompleted;
  };
  if (!needs_what_it_reserves(scenario)) {
    constexpr int kAttempts = 64;
    int attempts = 0;
    while (!fits(high) && ++attempts < kAttempts)
      high += high / 8 + kMiB.count;
    if (attempts == kAttempts) return 0;
  }
  while (high - low > kMiB.count) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high + context.count;
}

std::unique_ptr<const TorchRecorder> run_recorded(const Scenario& scenario,
                                                  const Compiled& compiled, Scratch& scratch,
                                                  bool limited) {
  const Bytes context = bytes_beside_allocator(scenario);
  const Bytes capacity = limited ? scenario.device.hbm.capacity - context : kUnlimited;
  auto recorder =
      std::make_unique<TorchRecorder>(capacity, scenario.allocator_options.torch, context);
  recorder->reserve(compiled.program.blocks.size());
  scratch.prepare(compiled.program, true, scenario.pinned);
  static_cast<void>(run(compiled.program, compiled.costs, *recorder, scratch,
                        options_of(scenario, compiled, limited, true)));
  return recorder;
}

Convergence find_convergence(const Scenario& scenario, const TrainedModel& model,
                             const Compiled& compiled, const Scratch& scratch, Bytes capacity,
                             int limit) {
  Convergence found;
  found.steps = reserved_by_step(compiled.program, compiled.order, scratch);
  found.step = converged_step(found.steps);
  if (scenario.allocator == AllocatorKind::kTorch && scenario.allocator_options.torch.cuda_graph) {
    // Replays of the graph that the last step captures allocate nothing.
    found.step = scenario.training.steps - 1;
  }
  const auto size = [&](int steps) {
    return compiled.program.size() * static_cast<std::size_t>(steps) /
           static_cast<std::size_t>(scenario.training.steps);
  };
  for (int steps = 2 * scenario.training.steps;
       !found.step && steps <= limit && size(steps) <= kLongestRun; steps *= 2) {
    const bool smaller = !compiled.smaller_budget.empty();
    const Compiled longer =
        compile(scenario, model, steps, smaller ? &compiled.smaller_budget : nullptr);
    Scratch other;
    const RunResult run = run_compiled(scenario, longer, other, capacity, true);
    found.steps = reserved_by_step(longer.program, longer.order, other);
    if (run.status != RunStatus::kCompleted) {
      const std::size_t last = longer.program.size() - 1;
      const auto at = std::min<std::size_t>(run.failed_instruction, last);
      found.fails_in = static_cast<int>(longer.order.at[longer.program.position[at]].step);
      return found;
    }
    found.step = converged_step(found.steps);
  }
  return found;
}

}  // namespace tidemark
