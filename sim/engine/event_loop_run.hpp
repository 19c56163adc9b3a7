// run() itself. A file that knows a type of allocator includes this and instantiates run() for it
// (sim/allocators); everything else includes engine.hpp.
#pragma once

#include <algorithm>

#include "sim/engine/engine.hpp"
#include "sim/engine/event_loop.hpp"
#include "sim/engine/event_loop_eviction.hpp"
#include "sim/engine/event_loop_host.hpp"
#include "sim/engine/event_loop_streams.hpp"

namespace tidemark {
namespace {

template <class A>
RunResult Engine<A>::run() {
  if (options_.eviction != nullptr) prepare_eviction();
  schedule_issue();
  while (!stopped_) {
    const std::int64_t end_time = earliest_end();
    if (end_time == kForever && next_issue_ == kForever) break;
    if (end_time <= next_issue_) {
      for (std::size_t s = 0; s < kStreams; ++s) {
        if (queues_[s].ends == end_time) end(s, end_time);
      }
      start_ready(end_time);
    } else {
      // The host goes on until something ends.
      while (!stopped_ && next_issue_ < earliest_end())
        issue();
    }
  }
  for (const Queue& queue : queues_) {
    if (!stopped_ && queue.head != kNone) fail(RunStatus::kDeadlock);
    result_.total = std::max(result_.total, Duration(queue.free_since));
  }
  for (Duration d : result_.phase)
    result_.step += d;
  const auto exposed = [&](Stream s) { return result_.exposed[static_cast<std::size_t>(s)]; };
  result_.exposed_transfer = exposed(Stream::kCopyOut) + exposed(Stream::kCopyIn) +
                             exposed(Stream::kNvmeRead) + exposed(Stream::kNvmeWrite);
  result_.exposed_communication = exposed(Stream::kCommunication);
  if constexpr (requires { allocator_.segments(); }) result_.segments = allocator_.segments();
  return result_;
}

}  // namespace

template <Allocator A>
RunResult run(const StepProgram& program, const CostTable& costs, A& allocator, Scratch& scratch,
              const RunOptions& options) {
  return Engine<A>(program, costs, allocator, scratch, options).run();
}

}  // namespace tidemark
