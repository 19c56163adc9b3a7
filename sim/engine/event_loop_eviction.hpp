// Blocks dropped when an allocation fails and made again when something needs them.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/engine/event_loop.hpp"

namespace tidemark {
namespace {

template <class A>
void Engine<A>::prepare_eviction() {
  const std::size_t blocks = program_.blocks.size();
  evictor_.policy = options_.eviction;
  evictor_.facts = eviction_facts(program_);
  evictor_.resident.assign(blocks, 0);
  evictor_.evicted.assign(blocks, 0);
  evictor_.pinned.assign(blocks, 0);
  evictor_.last_access.assign(blocks, 0);
  scratch_.restored.assign(program_.size(), 0);
}

// What the launch that is being prepared reads and writes stays.
template <class A>
void Engine<A>::pin_next_launch(bool pinned) {
  std::uint32_t i = pc_;
  while (i < count_ && program_.opcode[i] != Opcode::kLaunch)
    ++i;
  if (i == count_) return;
  for (BlockUse use : program_.uses_of(i))
    evictor_.pinned[use.block().index()] = pinned ? 1 : 0;
}

template <class A>
void Engine<A>::drop(BlockId block) {
  give_back(block);
  evictor_.resident[block.index()] = 0;
  change_live(block, -1);
  record(block, -1);
}

template <class A>
bool Engine<A>::evict_one(std::int64_t requested) {
  std::vector<char> before = evictor_.pinned;
  pin_next_launch(true);
  evictor_.view.clear();
  for (BlockId block : ids_of(program_.blocks)) {
    const std::size_t b = block.index();
    if (evictor_.resident[b] == 0 || evictor_.facts.evictable[b] == 0 || evictor_.pinned[b] != 0) {
      continue;
    }
    if (program_.blocks[block].bytes.count == 0) continue;  // gains nothing
    const std::uint32_t producer = evictor_.facts.producer[b];
    if (producer >= pc_) continue;  // its content has not been made yet
    evictor_.view.push_back(
        {.block = block,
         .bytes = program_.blocks[block].bytes,
         .address = allocator_.address(block),
         .last_access = Duration(evictor_.last_access[b]),
         .recompute_cost = costs_.device[OperatorId(program_.subject[producer])]});
  }
  evictor_.pinned = std::move(before);
  if (evictor_.view.empty()) return false;
  const std::size_t chosen = evictor_.policy->choose(
      {.now = Duration(host_), .requested = Bytes(requested), .evictable = evictor_.view});
  const BlockId block = evictor_.view.at(chosen).block;
  drop(block);
  evictor_.evicted[block.index()] = 1;
  ++result_.evictions;
  return true;
}

template <class A>
void Engine<A>::restore_inputs(std::uint32_t launch) {
  for (BlockUse use : program_.uses_of(launch)) {
    const std::size_t b = use.block().index();
    if (evictor_.evicted[b] != 0 && !restore(evictor_.facts.producer[b])) return;
    evictor_.last_access[b] = host_;
  }
}

// Runs a launch again in host order. Its inputs come first: evicted ones return, those that the
// program has freed already come back as guests and leave after this repetition.
template <class A>
bool Engine<A>::restore(std::uint32_t first) {
  struct Frame {
    std::uint32_t launch;
    std::size_t next_input = 0;
    std::vector<BlockId> guests;
    std::vector<BlockId> pins;
  };
  std::vector<Frame> stack;
  stack.push_back({.launch = first});
  const auto pin = [&](Frame& frame, BlockId block) {
    if (evictor_.pinned[block.index()] != 0) return;
    evictor_.pinned[block.index()] = 1;
    frame.pins.push_back(block);
  };
  // Pins the inputs of the launch at hand for the whole restoration.
  Frame outer{.launch = pc_};
  for (BlockUse use : program_.uses_of(pc_))
    pin(outer, use.block());
  while (!stack.empty() && !stopped_) {
    Frame& frame = stack.back();
    const std::span<const BlockUse> uses = program_.uses_of(frame.launch);
    bool descended = false;
    while (frame.next_input < uses.size()) {
      const BlockUse use = uses[frame.next_input++];
      if (use.access() != Access::kRead) continue;
      const std::size_t b = use.block().index();
      pin(frame, use.block());
      if (evictor_.resident[b] != 0 || evictor_.facts.producer[b] == kNone) continue;
      if (evictor_.evicted[b] == 0) frame.guests.push_back(use.block());
      stack.push_back({.launch = evictor_.facts.producer[b]});
      descended = true;
      break;
    }
    if (descended) continue;
    // All inputs are there: allocate the outputs, run, let scratch and guests go.
    Frame done = std::move(stack.back());
    stack.pop_back();
    std::vector<BlockId> scratch_outputs;
    for (BlockUse use : program_.uses_of(done.launch)) {
      if (use.access() != Access::kCreate) continue;
      const std::size_t b = use.block().index();
      const bool is_guest_of_caller =
          !stack.empty() && std::find(stack.back().guests.begin(), stack.back().guests.end(),
                                      use.block()) != stack.back().guests.end();
      const bool wanted = evictor_.evicted[b] != 0 || is_guest_of_caller;
      if (evictor_.resident[b] != 0) continue;  // writing it again gives the same content
      pin(outer, use.block());
      if (!allocate_device(use.block(), program_.blocks[use.block()].bytes.count)) {
        if (!stopped_) fail(RunStatus::kOutOfMemory, use.block());
        break;
      }
      change_live(use.block(), +1);
      record(use.block(), +1);
      note_peaks();
      evictor_.evicted[b] = 0;
      if (!wanted) scratch_outputs.push_back(use.block());
    }
    if (stopped_) break;
    const OperatorId op(program_.subject[done.launch]);
    host_ += costs_.dispatch[op].count();
    injected_ += costs_.device[op].count();
    ++result_.restores;
    for (BlockId block : scratch_outputs)
      drop(block);
    for (BlockId block : done.guests)
      drop(block);
    for (BlockId block : done.pins)
      evictor_.pinned[block.index()] = 0;
  }
  for (BlockId block : outer.pins)
    evictor_.pinned[block.index()] = 0;
  return !stopped_;
}

}  // namespace
}  // namespace tidemark
