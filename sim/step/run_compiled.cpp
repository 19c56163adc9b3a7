#include "sim/step/run_compiled.hpp"

#include <memory>

#include "sim/step/step_device.hpp"

namespace tidemark {
namespace run_compiled_detail {
namespace {

RunOptions options_of(const StepSpec& spec, EvictionPolicy* eviction, bool limited, bool record) {
  return {.host_capacity = limited ? spec.device.host.memory : kUnlimited,
          .nvme_capacity = limited ? spec.device.nvme.capacity : kUnlimited,
          .page_locked = spec.page_locked,
          .eviction = eviction,
#ifndef NDEBUG
          .check_contents = true,
#endif
          .record_events = record};
}

// Calls use(run) with what the allocator needs for a run of the step.
template <class F>
auto on_allocator(const StepSpec& spec, const Compiled& compiled, Scratch& scratch, Bytes capacity,
                  bool record, F&& use) {
  scratch.prepare(compiled.program, record, spec.page_locked);
  const bool limited = capacity < kUnlimited;
  const std::unique_ptr<EvictionPolicy> eviction =
      limited && compiled.eviction != nullptr ? compiled.eviction->copy() : nullptr;
  const RunOptions options = options_of(spec, eviction.get(), limited, record);
  return use(AllocatorRun{.program = compiled.program,
                          .costs = compiled.costs,
                          .options = options,
                          .scratch = scratch,
                          .capacity = capacity,
                          .process_overhead = process_overhead(spec),
                          .placement = compiled.placement});
}

Bytes capacity_of(const StepSpec& spec, bool limited) {
  return limited ? spec.device.hbm.capacity - process_overhead(spec) : kUnlimited;
}

}  // namespace
}  // namespace run_compiled_detail

RunResult run_compiled(const StepSpec& spec, const Compiled& compiled, Scratch& scratch,
                       Bytes capacity, bool record, OutOfMemory* failure) {
  return run_compiled_detail::on_allocator(
      spec, compiled, scratch, capacity, record,
      [&](const AllocatorRun& run) { return spec.allocator->run(run, failure); });
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
