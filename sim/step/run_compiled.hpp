// Runs a compiled step on its allocator, with as much memory as the caller says.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sim/allocators/allocator_model.hpp"
#include "sim/engine/engine.hpp"
#include "sim/memory/out_of_memory.hpp"
#include "sim/program/allocator_calls.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// `capacity` is what the allocator may take, the process overhead left out. Without a limit the
// host has none either and nothing is evicted. `record` fills the events of `scratch`; `failure`,
// if given, is filled when the device runs out of memory; `after`, if given, receives the
// allocator where its calls tell what it does.
[[nodiscard]] RunResult run_compiled(const StepSpec& spec, const Compiled& compiled,
                                     Scratch& scratch, Bytes capacity, bool record,
                                     OutOfMemory* failure = nullptr,
                                     std::unique_ptr<AllocatorAfterRun>* after = nullptr);

// Runs the stages of a pipeline together, each with so much memory. `scratch`: one for each stage,
// whose events are filled.
[[nodiscard]] std::vector<RunResult> run_stages(const StepSpec& spec,
                                                std::span<const Compiled> stages,
                                                std::span<Scratch> scratch, Bytes capacity);

// Makes the program's calls on a fresh allocator: see AllocatorModel::make_calls. Nothing where
// `calls` is null, or where a run does more than they tell.
[[nodiscard]] std::optional<CalledSteps> make_calls(const StepSpec& spec, const Compiled& compiled,
                                                    const AllocatorCalls* calls, Bytes capacity,
                                                    int limit);

// Makes the calls of further steps on the allocator that a run of the program has left, whose steps
// have reserved `made`; otherwise as make_calls().
[[nodiscard]] CalledSteps make_further_calls(const StepSpec& spec, const Compiled& compiled,
                                             const AllocatorCalls& calls, AllocatorAfterRun& after,
                                             std::vector<StepReserved> made, int limit);

// Returns the addresses of the step's allocations on its device, with unlimited memory unless
// `limited`; `timeline` is that of an equal run. Empty where the allocator has no addresses.
[[nodiscard]] AddressLayout address_layout(const StepSpec& spec, const Compiled& compiled,
                                           const MemoryTimeline& timeline, bool limited);

// Runs the step on its device and returns everything that PyTorch's allocator did, up to the
// request that failed if one does; with unlimited memory unless `limited`. Null with another
// allocator.
[[nodiscard]] std::unique_ptr<const TorchRecorder> run_recorded(const StepSpec& spec,
                                                                const Compiled& compiled,
                                                                Scratch& scratch,
                                                                bool limited = true);

}  // namespace tidemark
