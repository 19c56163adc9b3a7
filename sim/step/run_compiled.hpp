// A compiled step on its allocator, with as much memory as the caller says.
#pragma once

#include <memory>

#include "sim/engine/engine.hpp"
#include "sim/result/out_of_memory.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// More than any program asks for.
inline constexpr Bytes kUnlimited{std::int64_t{1} << 60};

// The step's options of the allocator bfc. Without a limit there is no whole to take at first: its
// regions grow.
[[nodiscard]] BfcOptions bfc_options(const StepSpec& spec, Bytes capacity);

// `capacity`: what the allocator may take, the process overhead left out. Without a limit the host
// has none either and nothing is evicted. `record` fills the events of `scratch`; `failure`, if
// given, is filled when the device runs out of memory.
[[nodiscard]] RunResult run_compiled(const StepSpec& spec, const Compiled& compiled,
                                     Scratch& scratch, Bytes capacity, bool record,
                                     OutOfMemory* failure = nullptr);

// The same on the step's device with the torch allocator and everything that it did, up to the
// request that failed if one does; with unlimited memory unless `limited`.
[[nodiscard]] std::unique_ptr<const TorchRecorder> run_recorded(const StepSpec& spec,
                                                                const Compiled& compiled,
                                                                Scratch& scratch,
                                                                bool limited = true);

}  // namespace tidemark
