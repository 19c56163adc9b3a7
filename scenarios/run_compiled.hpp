// A compiled scenario on its allocator, with as much memory as the caller says.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "scenarios/compile.hpp"
#include "sim/engine/engine.hpp"
#include "sim/result/out_of_memory.hpp"
#include "sim/result/timeline.hpp"

namespace tidemark {

// More than any program asks for.
inline constexpr Bytes kUnlimited{std::int64_t{1} << 60};

// Bytes that a process has on the device beside its allocator: the CUDA context and, with several
// ranks, NCCL's buffers. None for the ideal allocator.
[[nodiscard]] Bytes bytes_beside_allocator(const Scenario& scenario);

// The scenario's options of the allocator bfc. Without a limit there is no whole to take at first:
// its regions grow.
[[nodiscard]] BfcOptions bfc_options(const Scenario& scenario, Bytes capacity);

// `capacity`: what the allocator may take, the framework's context left out. Without a limit the
// host has none either and nothing is evicted. `record` fills the events of `scratch`; `failure`,
// if given, is filled when the device runs out of memory.
[[nodiscard]] RunResult run_compiled(const Scenario& scenario, const Compiled& compiled,
                                     Scratch& scratch, Bytes capacity, bool record,
                                     OutOfMemory* failure = nullptr);

// The least device capacity with which the program runs, retries and evictions allowed: between the
// live bytes that cannot go and what a run without a limit reserves. Bisected to 1 MiB; the ideal
// allocator without eviction needs exactly its peak, a packed program its height.
// `unlimited`: of a run without a limit; `too_small`: a capacity, context left out, known not to
// do, or 0. 0 when none was found.
[[nodiscard]] std::int64_t smallest_capacity(const Scenario& scenario, const Compiled& compiled,
                                             Bytes context, const RunResult& unlimited,
                                             Bytes too_small);

// The same on the scenario's device with the torch allocator and everything that it did, up to the
// request that failed if one does; with memory without end unless `limited`.
[[nodiscard]] std::unique_ptr<const TorchRecorder> run_recorded(const Scenario& scenario,
                                                                const Compiled& compiled,
                                                                Scratch& scratch,
                                                                bool limited = true);

// How much the steps of a scenario reserve, one by one.
struct Convergence {
  std::vector<StepReserved> steps;  // as many as were run
  std::optional<int> step;          // from which on nothing changes; none: not within `steps`
  std::optional<int> fails_in;      // a later step that runs out of memory where earlier ones fit
};
// From the configured steps where they show it (`scratch` is that of their run, with events), else
// from runs of more and more steps, up to `limit`, of the same model. Long programs, and orders
// that a policy has computed, are not repeated.
[[nodiscard]] Convergence find_convergence(const Scenario& scenario, const TrainedModel& model,
                                           const Compiled& compiled, const Scratch& scratch,
                                           Bytes capacity, int limit);

}  // namespace tidemark
