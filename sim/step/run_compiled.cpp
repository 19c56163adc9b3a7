#include "sim/step/run_compiled.hpp"

#include <algorithm>

#include "graph/core/errors.hpp"
#include "sim/step/step_device.hpp"

namespace tidemark {
namespace {

RunOptions options_of(const StepSpec& spec, const Compiled& compiled, bool limited, bool record) {
  return {.host_capacity = limited ? spec.device.host.memory : kUnlimited,
          .nvme_capacity = limited ? spec.device.nvme.capacity : kUnlimited,
          .pinned = spec.pinned,
          .eviction = limited ? compiled.eviction : nullptr,
#ifndef NDEBUG
          .check_contents = true,
#endif
          .record_events = record};
}

}  // namespace

BfcOptions bfc_options(const StepSpec& spec, Bytes capacity) {
  BfcOptions options = spec.allocator_options.bfc;
  options.allow_growth = options.allow_growth || capacity >= kUnlimited;
  return options;
}

RunResult run_compiled(const StepSpec& spec, const Compiled& compiled, Scratch& scratch,
                       Bytes capacity, bool record, OutOfMemory* failure) {
  scratch.prepare(compiled.program, record, spec.pinned);
  const bool limited = capacity < kUnlimited;
  const RunOptions options = options_of(spec, compiled, limited, record);
  const auto go = [&](auto&& allocator) {
    allocator.reserve(compiled.program.blocks.size());
    const RunResult result = run(compiled.program, compiled.costs, allocator, scratch, options);
    if (failure != nullptr && result.status == RunStatus::kOutOfMemory) {
      *failure = out_of_memory(allocator, result.requested, compiled.program.blocks.size());
    }
    return result;
  };
  // Where the process takes more than the device has, nothing is left.
  const Bytes left(std::max<std::int64_t>(capacity.count, 0));
  switch (spec.allocator) {
    case AllocatorKind::kIdeal:
      return go(IdealAllocator(left));
    case AllocatorKind::kTorch:
      return go(TorchAllocator(capacity, spec.allocator_options.torch, process_overhead(spec)));
    case AllocatorKind::kPacked:
      return go(PackedAllocator(compiled.placement, left));
    case AllocatorKind::kBfc:
      return go(BfcAllocator(left, bfc_options(spec, capacity)));
  }
  throw InternalError("an allocator that the engine does not know");
}

std::unique_ptr<const TorchRecorder> run_recorded(const StepSpec& spec, const Compiled& compiled,
                                                  Scratch& scratch, bool limited) {
  const Bytes overhead = process_overhead(spec);
  const Bytes capacity = limited ? spec.device.hbm.capacity - overhead : kUnlimited;
  auto recorder = std::make_unique<TorchRecorder>(capacity, spec.allocator_options.torch, overhead);
  recorder->reserve(compiled.program.blocks.size());
  scratch.prepare(compiled.program, true, spec.pinned);
  static_cast<void>(run(compiled.program, compiled.costs, *recorder, scratch,
                        options_of(spec, compiled, limited, true)));
  return recorder;
}

}  // namespace tidemark
