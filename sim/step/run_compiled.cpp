#include "sim/step/run_compiled.hpp"

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/step/step_device.hpp"

namespace tidemark {
namespace run_compiled_detail {
namespace {

RunOptions options_of(const StepSpec& spec, EvictionPolicy* eviction, bool limited, bool record,
                      std::span<const Arrival> arrivals) {
  return {.host_capacity = limited ? spec.device.host.memory : kUnlimited,
          .nvme_capacity = limited ? spec.device.nvme.capacity : kUnlimited,
          .page_locked = spec.page_locked,
          .eviction = eviction,
#ifndef NDEBUG
          .check_contents = true,
#endif
          .record_events = record,
          .arrivals = arrivals};
}

// Calls use(run) with what the allocator needs for a run of the step.
template <class F>
auto on_allocator(const StepSpec& spec, const Compiled& compiled, Scratch& scratch, Bytes capacity,
                  bool record, F&& use, std::unique_ptr<AllocatorAfterRun>* after = nullptr) {
  scratch.prepare(compiled.program, record, spec.page_locked);
  const bool limited = capacity < kUnlimited;
  const std::unique_ptr<EvictionPolicy> eviction =
      limited && compiled.eviction != nullptr ? compiled.eviction->copy() : nullptr;
  const RunOptions options = options_of(spec, eviction.get(), limited, record, compiled.arrivals);
  return use(AllocatorRun{.program = compiled.program,
                          .costs = compiled.costs,
                          .options = options,
                          .scratch = scratch,
                          .capacity = capacity,
                          .process_overhead = process_overhead(spec),
                          .placement = compiled.placement,
                          .after = after});
}

Bytes capacity_of(const StepSpec& spec, bool limited) {
  return limited ? spec.device.hbm.capacity - process_overhead(spec) : kUnlimited;
}

}  // namespace
}  // namespace run_compiled_detail

RunResult run_compiled(const StepSpec& spec, const Compiled& compiled, Scratch& scratch,
                       Bytes capacity, bool record, OutOfMemory* failure,
                       std::unique_ptr<AllocatorAfterRun>* after) {
  return run_compiled_detail::on_allocator(
      spec, compiled, scratch, capacity, record,
      [&](const AllocatorRun& run) { return spec.allocator->run(run, failure); }, after);
}

std::optional<CalledSteps> make_calls(const StepSpec& spec, const Compiled& compiled,
                                      const AllocatorCalls* calls, Bytes capacity, int limit) {
  if (calls == nullptr || compiled.eviction != nullptr) return std::nullopt;
  return spec.allocator->make_calls({.calls = *calls,
                                     .program = compiled.program,
                                     .capacity = capacity,
                                     .process_overhead = process_overhead(spec),
                                     .limit = limit});
}

CalledSteps make_further_calls(const StepSpec& spec, const Compiled& compiled,
                               const AllocatorCalls& calls, AllocatorAfterRun& after,
                               std::vector<StepReserved> made, int limit) {
  // The allocator has its capacity already.
  return after.make_further_calls({.calls = calls,
                                   .program = compiled.program,
                                   .capacity = {},
                                   .process_overhead = process_overhead(spec),
                                   .limit = limit},
                                  std::move(made));
}

std::vector<RunResult> run_stages(const StepSpec& spec, std::span<const Compiled> stages,
                                  std::span<Scratch> scratch, Bytes capacity) {
  const bool limited = capacity < kUnlimited;
  const RunOptions options = run_compiled_detail::options_of(spec, nullptr, limited, true, {});
  std::vector<AllocatorRun> runs;
  runs.reserve(stages.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    scratch[s].prepare(stages[s].program, true, spec.page_locked);
    runs.push_back({.program = stages[s].program,
                    .costs = stages[s].costs,
                    .options = options,
                    .scratch = scratch[s],
                    .capacity = capacity,
                    .process_overhead = process_overhead(spec),
                    .placement = stages[s].placement});
  }
  std::vector<OutOfMemory> failures(stages.size());
  return spec.allocator->run_ranks(runs, failures);
}

AddressLayout address_layout(const StepSpec& spec, const Compiled& compiled,
                             const MemoryTimeline& timeline, bool limited) {
  Scratch scratch;
  return run_compiled_detail::on_allocator(
      spec, compiled, scratch, run_compiled_detail::capacity_of(spec, limited), true,
      [&](const AllocatorRun& run) { return spec.allocator->layout(run, timeline); });
}

std::unique_ptr<const TorchRecorder> run_recorded(const StepSpec& spec, const Compiled& compiled,
                                                  Scratch& scratch, bool limited) {
  return run_compiled_detail::on_allocator(
      spec, compiled, scratch, run_compiled_detail::capacity_of(spec, limited), true,
      [&](const AllocatorRun& run) { return spec.allocator->run_recorded(run); });
}

}  // namespace tidemark
