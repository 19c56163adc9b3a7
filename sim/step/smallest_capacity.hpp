// Finds the least device memory with which a compiled step runs.
#pragma once

#include "graph/core/units.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/allocator_calls.hpp"
#include "sim/step/compiled.hpp"
#include "sim/step/convergence.hpp"
#include "sim/step/step_spec.hpp"

namespace tidemark {

// Returns the least device capacity with which the program runs, retries and evictions allowed:
// between the live bytes that cannot be evicted and what a run without a limit reserves. Bisected
// to 1 MiB, by the program's `calls` where they suffice (null: there are none); the ideal allocator
// without eviction needs exactly its peak, a packed program its height. `unlimited`: the figures of
// a run without a limit; `too_small`: a capacity, `overhead` left out, that is known not to
// suffice, or 0. Returns 0 when none was found.
[[nodiscard]] Bytes smallest_capacity(const StepSpec& spec, const Compiled& compiled,
                                      const AllocatorCalls* calls, Bytes overhead,
                                      const RunResult& unlimited, Bytes too_small);

// Returns the least device capacity with which the steps go on: as above, but where a later step of
// up to `limit` runs out of that memory, that step has to fit, too.
[[nodiscard]] Bytes lasting_capacity(LongerPrograms& longer, const Compiled& compiled,
                                     const AllocatorCalls* calls, Bytes overhead,
                                     RunResult unlimited, Bytes too_small, int limit);

}  // namespace tidemark
