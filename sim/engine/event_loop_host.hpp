// The host: it issues in order at its own clock, asks for memory, retries, frees and waits.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/engine/event_loop.hpp"
#include "sim/engine/waits.hpp"

namespace tidemark {
namespace {

// The driver accepts no more work for a stream of the device that is far behind.
template <class A>
bool Engine<A>::queue_is_full(std::uint32_t i) const {
  switch (program_.opcode[i]) {
    case Opcode::kLaunch:
    case Opcode::kReceive:
    case Opcode::kCopyOut:
    case Opcode::kCopyIn:
      return queues_[program_.stream[i]].waiting >= kLaunchQueue;
    default:
      return false;
  }
}

// The host pays for an instruction before the device sees it.
template <class A>
void Engine<A>::schedule_issue() {
  next_issue_ = kNever;
  if (pc_ == count_ || queue_is_full(pc_)) return;
  next_issue_ = host_;
  if (program_.opcode[pc_] == Opcode::kLaunch || program_.opcode[pc_] == Opcode::kReceive) {
    next_issue_ += costs_.dispatch[OperatorId(program_.subject[pc_])].count();
  } else if (is_copy(program_.opcode[pc_])) {
    next_issue_ += costs_.copy_dispatch.count();
  }
}

template <class A>
void Engine<A>::issue() {
  const std::uint32_t i = pc_;
  host_ = next_issue_;
  switch (program_.opcode[i]) {
    case Opcode::kAllocate:
      allocate(AllocationId(program_.subject[i]));
      break;
    case Opcode::kFree:
      free(i, AllocationId(program_.subject[i]));
      break;
    case Opcode::kLaunch:
      if (options_.eviction != nullptr) prepare_launch(i);
      if (stopped_) return;
      note_phase_peak();
      enqueue(i);
      if (options_.eviction != nullptr) finish_launch(i);
      break;
    case Opcode::kCopyOut:
    case Opcode::kCopyIn:
    case Opcode::kNvmeWrite:
    case Opcode::kNvmeRead:
    case Opcode::kWait:
    case Opcode::kReceive:
      enqueue(i);
      if (evictor_.check) evictor_.check->execute(i);
      break;
    case Opcode::kHostWait:
      if (!suspend(HostWait::kEdges)) wait_for_edges(i);
      break;
    case Opcode::kSynchronize:
      if (!suspend(HostWait::kIdle)) synchronize(false);
      break;
  }
  if (stopped_ || host_wait_ != HostWait::kNothing) return;
  ++pc_;
  if (owes_wait_ && suspend(HostWait::kIdle)) return;
  schedule_issue();
}

// Whether the host has to wait until other ranks have gone on; its current instruction is then
// issued again. A rank that runs alone never has to.
template <class A>
bool Engine<A>::suspend(HostWait wait) {
  if (peers_ == nullptr || is_over(wait)) return false;
  host_wait_ = wait;
  next_issue_ = kNever;
  return true;
}

template <class A>
bool Engine<A>::is_over(HostWait wait) const {
  if (wait == HostWait::kEdges) return edges_ended(pc_);
  return !streams_go_on(wait == HostWait::kIdleWithHostWork);
}

// Called when something has ended at `now`: the host's wait may be over.
template <class A>
void Engine<A>::resume_host(std::int64_t now) {
  if (host_wait_ == HostWait::kNothing || !is_over(host_wait_)) return;
  const bool edges = host_wait_ == HostWait::kEdges;
  account_block(edges ? last_cause(program_, scratch_, pc_, kNone) : last_ended(), host_, now);
  host_ = std::max(host_, now);
  host_wait_ = HostWait::kNothing;
  if (std::exchange(owes_wait_, false)) {
    host_ += costs_.synchronize.count();
    events_ended_ = true;
    notice_events();
  }
  schedule_issue();
}

template <class A>
void Engine<A>::record(AllocationId allocation, int sign) {
  if (!options_.record_events) return;
  const Tier tier = program_.allocations[allocation].tier;
  Bytes active = allocator_.active();
  if (tier != Tier::kDevice) active = off_device(tier).live;
  scratch_.events.push_back({.instruction = pc_,
                             .allocation = allocation,
                             .sign = sign,
                             .active = active,
                             .reserved = allocator_.reserved()});
}

template <class A>
void Engine<A>::note_peaks() {
  raise(result_.most_live, live_);
  raise(result_.most_reserved, allocator_.reserved());
  const Slot& at = slot(pc_);
  if (!at.last_step) return;
  raise(result_.live, live_);
  raise(result_.live_without_workspace, live_ - workspace_);
  raise(result_.allocated, allocator_.allocated());
  raise(result_.active, allocator_.active());
  raise(result_.reserved, allocator_.reserved());
  const Bytes reserved = allocator_.reserved();
  const Fragmentation& most = result_.fragmentation;
  if (reserved > most.reserved || (reserved == most.reserved && live_ > most.live)) {
    note_fragmentation();
  }
  note_phase_peak();
}

template <class A>
void Engine<A>::note_fragmentation() {
  const Bytes reserved = allocator_.reserved();
  const Bytes allocated = allocator_.allocated();
  const Bytes active = allocator_.active();
  const Bytes inactive_splits = allocator_.inactive_split();
  result_.fragmentation = {.reserved = reserved,
                           .live = live_,
                           .rounding = allocated - live_,
                           .pending_events = active - allocated,
                           .inactive_splits = inactive_splits,
                           .free_segments = reserved - active - inactive_splits,
                           .instruction = pc_};
}

// Opens a phase with what is live: a phase that allocates nothing still runs with all of that in
// memory, and its first free returns memory that was allocated before the phase.
template <class A>
void Engine<A>::note_phase_peak() {
  const Slot& at = slot(pc_);
  if (!at.last_step) return;
  const auto phase = static_cast<std::size_t>(at.phase);
  raise(result_.phase_live[phase], live_);
  raise(result_.phase_live_without_workspace[phase], live_ - workspace_);
}

template <class A>
void Engine<A>::allocate(AllocationId allocation) {
  const Allocation& b = program_.allocations[allocation];
  if (!in_last_step_ && slot(pc_).last_step) {
    if (captures() && suspend(HostWait::kIdle)) return;
    begin_last_step();
  }
  if (b.tier != Tier::kDevice) {
    allocate_away(allocation);
    return;
  }
  if (options_.eviction != nullptr) {
    const std::uint32_t launch = evictor_.facts.next_launch[pc_];
    if (launch != kNone) prepare_launch(launch);
    if (stopped_) return;
  }
  if (!allocate_device(allocation, b.bytes)) {
    if (!stopped_ && host_wait_ == HostWait::kNothing) fail(RunStatus::kOutOfMemory, allocation);
    return;
  }
  if (options_.eviction != nullptr) evictor_.owned[allocation.index()] = 1;
  change_live(allocation, +1);
  record(allocation, +1);
  note_peaks();
}

// Page-locked host memory and NVMe. Freed buffers return when the streams that use them have
// passed; the host waits for that only when there is no other way.
template <class A>
void Engine<A>::allocate_away(AllocationId allocation) {
  const Allocation& b = program_.allocations[allocation];
  OffDeviceMemory& memory = off_device(b.tier);
  notice_events();
  const auto lacks = [&] {
    return memory.grows_by(scratch_, allocation, b) > memory.capacity - memory.taken;
  };
  if (lacks() && !scratch_.deferred.empty()) {
    if (suspend(HostWait::kIdleWithHostWork)) return;
    synchronize(true);
  }
  if (lacks()) {
    fail(b.tier == Tier::kHost ? RunStatus::kOutOfHostMemory : RunStatus::kOutOfNvme, allocation);
    return;
  }
  const Bytes grown = memory.grows_by(scratch_, allocation, b);
  memory.take(scratch_, allocation, b, grown);
  if (memory.pools && grown > Bytes(0)) {
    host_ += std::llround(costs_.page_locking_ns_per_byte * static_cast<double>(grown.count));
  }
  raise(result_.most_host, host_memory_.taken);
  raise(result_.most_nvme, nvme_.taken);
  record(allocation, +1);
  if (slot(pc_).last_step) note_away_peaks();
}

template <class A>
void Engine<A>::note_away_peaks() {
  raise(result_.host, off_device(Tier::kHost).live);
  raise(result_.host_taken, off_device(Tier::kHost).taken);
  raise(result_.nvme, off_device(Tier::kNvme).live);
}

// torch.cuda.graph empties the cache before it captures.
template <class A>
void Engine<A>::begin_last_step() {
  in_last_step_ = true;
  note_away_peaks();
  if (captures()) release_cached();
  if constexpr (requires { allocator_.begin_last_step(); }) allocator_.begin_last_step();
}

template <class A>
bool Engine<A>::try_allocate(AllocationId allocation, Bytes bytes, bool again) {
  AllocationResult result{.ok = true};
  if (bytes > Bytes(0)) {  // requests for nothing never reach the allocator
    result = again ? allocator_.allocate_again(allocation, bytes)
                   : allocator_.allocate(allocation, bytes);
  }
  // Memory goes back to the device only when no stream can use it.
  if (result.device_frees > 0 && peers_ == nullptr) synchronize(false);
  owes_wait_ = owes_wait_ || (result.device_frees > 0 && peers_ != nullptr);
  host_ += result.device_mallocs * costs_.device_malloc.count() +
           result.device_frees * costs_.device_free.count();
  if (result.ok && options_.eviction != nullptr) evictor_.resident[allocation.index()] = 1;
  return result.ok;
}

// Gives cached memory back to the device. cudaFree waits until the device is idle, and unmapping
// pages is preceded by a wait for their stream: both cost the host a synchronisation.
template <class A>
void Engine<A>::release_cached(bool is_idle) {
  const bool waits = !scratch_.deferred.empty() && !is_idle;
  if (waits) synchronize(false);
  const int released = allocator_.release_cached();
  if (released > 0 && !waits && !is_idle) synchronize(false);
  host_ += released * costs_.device_free.count();
}

// Retries as the caching allocator does: first events that have ended, then a synchronisation and
// the whole cache, then whatever the eviction policy evicts.
template <class A>
bool Engine<A>::allocate_device(AllocationId allocation, Bytes bytes) {
  notice_events();
  const bool again = std::exchange(has_waited_, false);
  if (!again && try_allocate(allocation, bytes)) return true;
  if (is_capturing()) return false;
  const bool has_cached = allocator_.reserved() > allocator_.active();
  if (!again && (has_cached || !scratch_.deferred.empty()) && suspend(HostWait::kIdle)) {
    has_waited_ = true;
    return false;
  }
  if (again) host_ += costs_.synchronize.count();
  release_cached(again);
  ++result_.retries;
  if (try_allocate(allocation, bytes, true)) return true;
  while (options_.eviction != nullptr && evict_some(bytes)) {
    if (try_allocate(allocation, bytes)) return true;
    release_cached();
    if (try_allocate(allocation, bytes)) return true;
  }
  return false;
}

template <class A>
void Engine<A>::free(std::uint32_t i, AllocationId allocation) {
  const Allocation& b = program_.allocations[allocation];
  if (options_.eviction != nullptr && b.tier == Tier::kDevice) {
    if (restorable(allocation)) {
      note_phase_peak();
      release(allocation);
      return;
    }
    evictor_.resident[allocation.index()] = 0;
    if (evictor_.check) evictor_.check->lose(allocation);
  }
  if (b.tier == Tier::kDevice) {
    note_phase_peak();
    change_live(allocation, -1);
  }
  if (defer_free(i, allocation)) {
    if (b.tier == Tier::kDevice && b.bytes > Bytes(0)) allocator_.defer_free(allocation);
  } else {
    return_memory(allocation);
  }
  record(allocation, -1);
}

// Whether a stream that the free waits for has not passed it yet; notes the free if so.
template <class A>
bool Engine<A>::defer_free(std::uint32_t i, AllocationId allocation) {
  const std::uint16_t mask = program_.stream[i];
  bool waits = false;
  for (std::size_t s = 0; mask != 0 && s < streams_; ++s) {
    const std::uint32_t last = queues_[s].issued;
    if (((mask >> s) & 1U) == 0 || last == kNone || scratch_.finished[last] >= 0) continue;
    if (!waits) scratch_.deferred.add(allocation);
    scratch_.deferred.wait_for(static_cast<Stream>(s), last);
    waits = true;
  }
  return waits;
}

// Returns allocations whose events have all ended to their pools; called when memory is asked for.
template <class A>
void Engine<A>::notice_events() {
  if (!events_ended_ || scratch_.deferred.empty()) return;
  events_ended_ = false;
  scratch_.deferred.release_ended(scratch_.finished, streams_, [&](AllocationId allocation) {
    // Memory that a graph captures is free for others only when the capture ends.
    if (is_capturing() && program_.allocations[allocation].tier == Tier::kDevice) return false;
    return_memory(allocation);
    record(allocation, 0);
    return true;
  });
}

template <class A>
void Engine<A>::fail(RunStatus status, AllocationId allocation) {
  result_.status = status;
  result_.failed_instruction = pc_;
  result_.failed_allocation = allocation;
  if (allocation.valid()) result_.requested = program_.allocations[allocation].bytes;
  result_.live_at_failure = live_;
  result_.reserved_at_failure = allocator_.reserved();
  if (status != RunStatus::kDeadlock) ++result_.ooms;
  if constexpr (requires { allocator_.note_out_of_memory(Bytes(1)); }) {
    if (status == RunStatus::kOutOfMemory) allocator_.note_out_of_memory(result_.requested);
  }
  stopped_ = true;
}

}  // namespace
}  // namespace tidemark
