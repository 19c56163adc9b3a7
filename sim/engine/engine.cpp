#include "sim/engine/engine.hpp"

#include <algorithm>
#include <bit>

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

namespace {

// Size classes of the pool of pinned memory.
void classify(const StepProgram& program, PinnedMemory pinned, Scratch& scratch) {
  scratch.size_class.clear();
  scratch.class_bytes.clear();
  scratch.pooled.clear();
  if (pinned == PinnedMemory::kExact) return;
  const auto taken = [&](const Block& block) {
    const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(block.bytes.count, 1));
    if (pinned == PinnedMemory::kPool) return static_cast<std::int64_t>(bytes);
    return static_cast<std::int64_t>(std::bit_ceil(bytes));
  };
  for (const Block& block : program.blocks) {
    if (block.tier == Tier::kHost) scratch.class_bytes.push_back(taken(block));
  }
  std::vector<std::int64_t>& sizes = scratch.class_bytes;
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  scratch.pooled.assign(sizes.size(), 0);
  scratch.size_class.assign(program.blocks.size(), 0);
  for (BlockId id : ids_of(program.blocks)) {
    const Block& block = program.blocks[id];
    if (block.tier != Tier::kHost) continue;
    const auto at = std::lower_bound(sizes.begin(), sizes.end(), taken(block));
    scratch.size_class[id.index()] = static_cast<std::uint32_t>(at - sizes.begin());
  }
}

}  // namespace

void Scratch::prepare(const StepProgram& program, bool record_events, PinnedMemory pinned) {
  classify(program, pinned, *this);
  const std::size_t n = program.size();
  started.assign(n, -1);
  finished.assign(n, -1);
  enqueued.assign(n, 0);
  next.assign(n, kNone);
  previous.assign(n, kNone);
  events.clear();
  pending.clear();
  event_of.clear();
  std::size_t deferred = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (program.opcode[i] == Opcode::kFree && program.stream[i] != 0) ++deferred;
  }
  pending.reserve(deferred);
  event_of.reserve(deferred);
  if (record_events) events.reserve(2 * program.allocations + deferred);
}

std::size_t Scratch::memory_bytes() const {
  const auto held = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return held(started) + held(finished) + held(enqueued) + held(next) + held(previous) +
         held(events) + held(pending) + held(event_of);
}

template <class A>
RunResult run(const StepProgram& program, const CostTable& costs, A& allocator, Scratch& scratch,
              const RunOptions& options) {
  return Engine<A>(program, costs, allocator, scratch, options).run();
}

template RunResult run(const StepProgram&, const CostTable&, IdealAllocator&, Scratch&,
                       const RunOptions&);
template RunResult run(const StepProgram&, const CostTable&, TorchAllocator&, Scratch&,
                       const RunOptions&);
template RunResult run(const StepProgram&, const CostTable&, BfcAllocator&, Scratch&,
                       const RunOptions&);
template RunResult run(const StepProgram&, const CostTable&, PackedAllocator&, Scratch&,
                       const RunOptions&);
template RunResult run(const StepProgram&, const CostTable&, TorchRecorder&, Scratch&,
                       const RunOptions&);

}  // namespace tidemark
