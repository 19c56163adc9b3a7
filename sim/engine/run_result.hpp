// Result of a run of a step program.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "graph/core/units.hpp"
#include "sim/program/step_program.hpp"

namespace tidemark {

enum class RunStatus : std::uint8_t {
  kCompleted,
  kOutOfMemory,
  kOutOfHostMemory,
  kOutOfNvme,
  kDeadlock,
  kPeerFailed,  // waits for a rank that has failed
  kThrash,  // recomputation for evicted allocations takes over, see EvictionPolicy::thrash_factor()
};

inline constexpr int kNoRank = -1;

// The largest value of one figure of the last step, and the instruction that reached it first.
struct Peak {
  Bytes bytes;
  std::uint32_t instruction = kNoInstruction;
  std::size_t events = 0;  // number of events recorded so far (RunOptions::record_events)
};

// The reasons why more is reserved than is live: reserved = live + the four terms below.
struct Fragmentation {
  Bytes reserved;
  Bytes live;
  Bytes rounding;         // allocations are larger than what was asked for
  Bytes pending_events;   // freed, but a stream may still use it
  Bytes inactive_splits;  // free inside a segment that something else keeps
  Bytes free_segments;    // cached: free as a whole
  std::uint32_t instruction = kNoInstruction;
};

// One change of memory. Events of one instruction follow each other. An allocation that the program
// frees while streams may still use it stops being live at once and being active at its second
// event.
struct MemoryEvent {
  std::uint32_t instruction = 0;  // issued at that moment
  AllocationId allocation;
  std::int32_t sign = 0;  // +1 allocated, -1 freed, 0 returned after its stream events
  Bytes active;           // bytes of the allocation's tier afterwards, as the allocator rounds
  Bytes reserved;         // bytes of the device afterwards
};

struct RunResult {
  RunStatus status = RunStatus::kCompleted;
  std::uint32_t failed_instruction = kNoInstruction;
  AllocationId failed_allocation;  // the allocation that could not be met
  Bytes requested;                 // bytes that the failed allocation asked for
  // The rank whose send failed_instruction waits for, after kDeadlock and kPeerFailed; none when it
  // waits for nothing that a rank will send.
  int awaited_rank = kNoRank;

  // Figures of the last step. live: bytes of allocations as requested; allocated: the same as the
  // allocator rounds; active: with allocations that wait for events; reserved: taken from the
  // device.
  Peak live;
  Peak live_without_workspace;
  Peak allocated;
  Peak active;
  Peak reserved;
  // The terms at the peak of `reserved`; of all moments with as much, the one with the most live
  // bytes.
  Fragmentation fragmentation;
  std::array<Peak, kPhases> phase_live;
  std::array<Peak, kPhases> phase_live_without_workspace;
  Peak host;        // page-locked memory, bytes of buffers as requested
  Peak host_taken;  // bytes taken from the system: with rounding and what the pool keeps
  Peak nvme;
  Bytes between_steps;  // live after the last step, without workspaces that stay
  Bytes most_live;      // most bytes live over all steps
  Bytes most_reserved;
  Bytes most_host;  // taken from the system over all steps
  Bytes most_nvme;
  Bytes live_at_failure;
  Bytes reserved_at_failure;

  Duration total{};  // all steps
  Duration step{};   // the last step on the compute stream; the sum of `phase`
  std::array<Duration, kPhases> phase{};
  Duration recompute{};              // compute time of recomputed operators
  Duration exposed_transfer{};       // compute waits for copies
  Duration exposed_communication{};  // compute waits for queues of groups
  Duration host_bound{};             // compute waits for the host
  // Time that compute waits for work on these streams: exposed_transfer is the sum of the four
  // links.
  std::array<Duration, kStreams> exposed{};
  std::array<Duration, kStreams> busy{};

  std::int64_t retries = 0;  // allocations retried after the whole cache was given back
  std::int64_t ooms = 0;
  std::int64_t evictions = 0;
  std::int64_t restores = 0;  // operators recomputed for evicted allocations
  std::size_t segments = 0;
};

}  // namespace tidemark
