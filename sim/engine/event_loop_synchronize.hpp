// Waits of the host: for single instructions, and for everything that it has issued.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/engine/event_loop.hpp"
#include "sim/engine/waits.hpp"

namespace tidemark {
namespace {

// The host waits for events of single instructions (cudaEventSynchronize).
template <class A>
void Engine<A>::wait_for_edges(std::uint32_t i) {
  std::int64_t now = host_;
  while (!edges_ended(i)) {
    const std::int64_t next = earliest_end();
    if (next == kNever) {
      fail(RunStatus::kDeadlock);
      return;
    }
    now = std::max(now, next);
    for (std::size_t s = 0; s < streams_; ++s) {
      if (queues_[s].ends == next) end(s, next);
    }
    start_ready(next);
  }
  account_block(last_cause(program_, scratch_, i, kNone), host_, now);
  host_ = now + costs_.synchronize.count();
}

// Whether a stream of the device has work. With `with_host_work`, streams count too whose work the
// device does not wait for: the optimizer on the host and NVMe.
template <class A>
bool Engine<A>::streams_go_on(bool with_host_work) const {
  for (std::size_t s = 0; s < streams_; ++s) {
    if (!with_host_work && (s == kHostWork || s == kNvmeReads || s == kNvmeWrites)) continue;
    if (queues_[s].waiting > 0) return true;
  }
  return false;
}

// Returns, of the last instructions issued to each stream, the one that ended latest.
template <class A>
std::uint32_t Engine<A>::last_ended() const {
  std::uint32_t last = kNone;
  for (const Queue& queue : queues_) {
    if (queue.issued == kNone || scratch_.finished[queue.issued] < 0) continue;
    if (last == kNone || scratch_.finished[queue.issued] > scratch_.finished[last]) {
      last = queue.issued;
    }
  }
  return last;
}

// The host waits until the device's streams have done everything that it has issued; with
// `with_host_work` also for the work of the optimizer on the host and of NVMe that nothing else
// waits for.
template <class A>
void Engine<A>::synchronize(bool with_host_work) {
  std::int64_t now = host_;
  while (streams_go_on(with_host_work)) {
    const std::int64_t next = earliest_end();
    if (next == kNever) break;
    now = std::max(now, next);
    for (std::size_t s = 0; s < streams_; ++s) {
      if (queues_[s].ends == next) end(s, next);
    }
    start_ready(next);
  }
  account_block(last_ended(), host_, now);
  host_ = now + costs_.synchronize.count();
  events_ended_ = true;
  notice_events();
}

}  // namespace
}  // namespace tidemark
