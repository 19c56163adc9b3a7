// Inputs of a run besides its program: options, and memory that runs reuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/core/units.hpp"
#include "policies/plan/eviction.hpp"
#include "sim/engine/deferred_frees.hpp"
#include "sim/engine/run_result.hpp"
#include "sim/memory/page_locked_memory.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

// The time at which what a receive waits for has been sent.
struct Arrival {
  std::uint32_t receive = 0;  // instruction
  Duration at{};              // from the start of the run
};

struct RunOptions {
  Bytes host_capacity;
  Bytes nvme_capacity;
  PageLockedMemory page_locked = PageLockedMemory::kExact;
  EvictionPolicy* eviction = nullptr;
  bool check_contents = false;  // proves contents that eviction restored, see content_check.hpp
  bool record_events = false;   // fills Scratch::events
  // For a rank that runs alone although it receives: what the other ranks send it, by instruction.
  std::span<const Arrival> arrivals = {};
};

// Memory of a run, reused between runs. `prepare` allocates; run() does not (with an eviction
// policy it may).
struct Scratch {
  std::vector<std::int64_t> started;   // start of each launch, copy and wait in ns
  std::vector<std::int64_t> finished;  // -1 while it has not ended
  std::vector<std::int64_t> enqueued;
  std::vector<std::int64_t> restored;  // compute time recomputed by eviction before the instruction
  std::vector<std::uint32_t> next;     // the instruction after it on its stream
  std::vector<std::uint32_t> previous;  // the instruction before it on its stream
  // by allocation: its size class in a pool of page-locked memory
  std::vector<std::uint32_t> size_class;
  std::vector<Bytes> class_bytes;     // bytes of each size class
  std::vector<std::uint32_t> pooled;  // free buffers of each size class
  std::vector<MemoryEvent> events;
  DeferredFrees deferred;
  std::size_t streams = 1;  // one more than the last stream that the program uses

  void prepare(const StepProgram& program, bool record_events,
               PageLockedMemory page_locked = PageLockedMemory::kExact);
  [[nodiscard]] std::size_t memory_bytes() const;
};

}  // namespace tidemark
