// Blocks dropped when an allocation fails and made again when something needs them, as in DTR
// (Kirisame et al. 2021): an operator's inputs are brought back and pinned before its outputs are
// allocated, what it needs is computed depth first, and whatever comes back may be dropped again.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/core/errors.hpp"
#include "sim/engine/event_loop.hpp"

namespace tidemark {
namespace {

template <class A>
void Engine<A>::prepare_eviction() {
  const std::size_t blocks = program_.blocks.size();
  Evictor& e = evictor_;
  e.policy = options_.eviction;
  e.facts = eviction_facts(program_, costs_);
  e.resident.assign(blocks, 0);
  e.owned.assign(blocks, 0);
  e.made.assign(blocks, 0);
  e.gone.assign(blocks, 0);
  e.fixed.assign(blocks, 0);
  e.listed.assign(blocks, 0);
  e.pins.assign(blocks, 0);
  e.previous.assign(blocks, kNone);
  e.next.assign(blocks, kNone);
  e.restores.assign(blocks, 0);
  e.last_access.assign(blocks, 0);
  e.limit = static_cast<double>(e.facts.compute.count()) * (e.policy->thrash_factor() - 1);
  e.first_child.assign(blocks + 1, 0);
  for (const RecipeInput& input : e.facts.recipes)
    ++e.first_child[input.from.index() + 1];
  for (std::size_t b = 0; b < blocks; ++b)
    e.first_child[b + 1] += e.first_child[b];
  e.children.resize(e.facts.recipes.size());
  std::vector<std::uint32_t> at(e.first_child.begin(), e.first_child.end() - 1);
  for (const RecipeInput& input : e.facts.recipes)
    e.children[at[input.from.index()]++] = input.to.value;
  if (options_.check_contents) e.check.emplace(program_);
  e.policy->begin({.blocks = blocks, .cost = e.facts.cost, .recipes = e.facts.recipes});
  scratch_.restored.assign(program_.size(), 0);
}

// Blocks enter the pool at its end.
template <class A>
void Engine<A>::update_pool(BlockId block) {
  Evictor& e = evictor_;
  const std::size_t b = block.index();
  // What the program has let go need not be valid for anyone but recipes.
  const bool droppable = e.facts.evictable[b] != 0 || (restorable(block) && e.owned[b] == 0);
  const bool in = droppable && e.resident[b] != 0 && e.made[b] != 0 && e.fixed[b] == 0 &&
                  e.pins[b] == 0 && program_.blocks[block].bytes.count > 0;
  if (in == (e.listed[b] != 0)) return;
  e.listed[b] = in ? 1 : 0;
  if (in) {
    e.previous[b] = e.last;
    e.next[b] = kNone;
    (e.last == kNone ? e.first : e.next[e.last]) = block.value;
    e.last = block.value;
  } else {
    (e.previous[b] == kNone ? e.first : e.next[e.previous[b]]) = e.next[b];
    (e.next[b] == kNone ? e.last : e.previous[e.next[b]]) = e.previous[b];
  }
}

template <class A>
void Engine<A>::pin(BlockId block) {
  if (evictor_.pins[block.index()]++ == 0) update_pool(block);
}

template <class A>
void Engine<A>::unpin(BlockId block) {
  if (--evictor_.pins[block.index()] == 0) update_pool(block);
}

template <class A>
void Engine<A>::access(BlockId block) {
  if (!restorable(block)) return;
  evictor_.last_access[block.index()] = evictor_.clock;
  evictor_.policy->accessed(block, Duration(evictor_.clock));
}

template <class A>
void Engine<A>::drop(BlockId block) {
  give_back(block);
  evictor_.resident[block.index()] = 0;
  update_pool(block);
  change_live(block, -1);
  record(block, -1);
  if (evictor_.check) evictor_.check->lose(block);
}

// The program's last reference to a block that can be made again.
template <class A>
void Engine<A>::let_go(BlockId block) {
  Evictor& e = evictor_;
  const std::size_t b = block.index();
  e.owned[b] = 0;
  const DeallocationMode mode = e.policy->mode();
  if (mode == DeallocationMode::kIgnore) {
    update_pool(block);
    return;
  }
  if (mode == DeallocationMode::kBanish && banish(block)) return;
  if (e.resident[b] == 0 || e.fixed[b] != 0) return;
  drop(block);
  e.policy->released(block, false);
}

// Gives up a block for ever, unless something evicted is computed from it. What was computed from
// it cannot be made again any more.
template <class A>
bool Engine<A>::banish(BlockId block) {
  Evictor& e = evictor_;
  const std::size_t b = block.index();
  if (e.gone[b] != 0) return false;
  const auto children =
      std::span(e.children).subspan(e.first_child[b], e.first_child[b + 1] - e.first_child[b]);
  for (const std::uint32_t child : children) {
    if (e.made[child] != 0 && e.resident[child] == 0 && e.gone[child] == 0) return false;
  }
  if (e.resident[b] != 0) drop(block);
  e.gone[b] = 1;
  e.policy->released(block, true);
  for (const std::uint32_t child : children) {
    if (e.gone[child] != 0) continue;
    e.fixed[child] = 1;
    update_pool(BlockId(child));
  }
  return true;
}

template <class A>
void Engine<A>::list_evictable() {
  Evictor& e = evictor_;
  e.view.clear();
  for (std::uint32_t b = e.first; b != kNone; b = e.next[b]) {
    const BlockId block(b);
    std::int64_t beside = 0;
    if constexpr (SegmentAllocator<A>) {
      const auto* piece = allocator_.given(block);
      for (const auto* other : {piece->previous, piece->next}) {
        if (other != nullptr && other->is_free()) beside += other->size;
      }
    }
    e.view.push_back({.block = block,
                      .bytes = program_.blocks[block].bytes,
                      .address = allocator_.address(block),
                      .free_neighbours = Bytes(beside),
                      .last_access = Duration(e.last_access[b]),
                      .recompute_cost = e.facts.cost[b],
                      .restores = e.restores[b]});
  }
}

// What can be dropped and what lies directly beside it.
template <class A>
void Engine<A>::list_pieces([[maybe_unused]] std::int64_t requested) {
  evictor_.pieces.clear();
  if constexpr (SegmentAllocator<A>) {
    using Piece = std::remove_pointer_t<decltype(allocator_.given(BlockId()))>;
    std::vector<std::pair<const Piece*, std::uint32_t>> found;
    for (std::uint32_t i = 0; i < evictor_.view.size(); ++i) {
      const Piece* piece = allocator_.given(evictor_.view[i].block);
      if (!piece->serves(requested)) continue;
      found.emplace_back(piece, i);
      for (const Piece* other : {piece->previous, piece->next}) {
        if (other == nullptr) continue;
        found.emplace_back(other, other->is_free() ? MemoryPiece::kFree : MemoryPiece::kHeld);
      }
    }
    // A neighbour that can be dropped itself is listed twice: as what it is first.
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a.first->address != b.first->address ? a.first->address < b.first->address
                                                  : a.second < b.second;
    });
    const Piece* before = nullptr;
    for (const auto& [piece, content] : found) {
      if (piece == before) continue;
      evictor_.pieces.push_back({.address = piece->address,
                                 .bytes = Bytes(piece->size),
                                 .content = content,
                                 .adjoins = before != nullptr && before->next == piece});
      before = piece;
    }
  }
}

template <class A>
bool Engine<A>::evict_some(std::int64_t requested) {
  Evictor& e = evictor_;
  list_evictable();
  if (e.view.empty()) return false;
  if (e.policy->looks_at_addresses()) list_pieces(requested);
  const std::vector<std::size_t> victims = e.policy->choose({.now = Duration(e.clock),
                                                             .requested = Bytes(requested),
                                                             .evictable = e.view,
                                                             .pieces = e.pieces});
  for (const std::size_t victim : victims) {
    if (victim >= e.view.size() || e.listed[e.view[victim].block.index()] == 0) {
      throw InternalError(fmt::format("the eviction policy '{}' chose number {} of {} blocks",
                                      e.policy->name(), victim, e.view.size()));
    }
    const BlockId block = e.view[victim].block;
    drop(block);
    e.policy->evicted(block);
    ++result_.evictions;
  }
  return !victims.empty();
}

// What a launch reads and writes stays until it has run; what is missing is pinned when it is back.
template <class A>
void Engine<A>::open_launch(std::uint32_t launch) {
  Evictor& e = evictor_;
  const bool banishes = e.policy->mode() == DeallocationMode::kBanish;
  const std::size_t begin = e.missing.size();
  for (BlockUse use : program_.uses_of(launch)) {
    const BlockId block = use.block();
    const std::size_t b = block.index();
    const bool reads = use.access() == Access::kRead;
    if (reads && (!banishes || e.owned[b] != 0)) access(block);
    if (!reads || !restorable(block) || e.resident[b] != 0) {
      pin(block);
      continue;
    }
    if (e.gone[b] != 0 || e.made[b] == 0) {
      throw InternalError(fmt::format("instruction {} needs block {}, which cannot be made again",
                                      launch, block.value));
    }
    e.missing.push_back(block);
  }
  e.frames.push_back({launch, begin, begin});
}

// Outputs enter the pool before inputs do.
template <class A>
void Engine<A>::close_launch(std::uint32_t launch) {
  for (const bool outputs : {true, false}) {
    for (BlockUse use : program_.uses_of(launch)) {
      if ((use.access() == Access::kCreate) == outputs) unpin(use.block());
    }
  }
}

// Brings back the inputs of the program's next launch, before memory is taken for its outputs:
// depth first, without recursion, since chains of evicted blocks are as long as the program.
template <class A>
void Engine<A>::prepare_launch(std::uint32_t launch) {
  Evictor& e = evictor_;
  if (e.prepared == launch) return;
  e.prepared = launch;
  open_launch(launch);
  while (!e.frames.empty()) {
    Evictor::Frame& frame = e.frames.back();
    if (frame.next < e.missing.size()) {
      const BlockId block = e.missing[frame.next];
      if (e.resident[block.index()] == 0) {
        open_launch(e.facts.producer[block.index()]);  // `frame` is no longer valid
      } else {
        pin(block);
        ++frame.next;
      }
      continue;
    }
    if (e.frames.size() > 1 && !repeat(frame.launch)) return;
    e.missing.resize(e.frames.back().begin);
    e.frames.pop_back();
  }
}

template <class A>
void Engine<A>::finish_launch(std::uint32_t launch) {
  Evictor& e = evictor_;
  if (e.check) e.check->execute(launch);
  if (program_.stream[launch] == kCompute) {
    e.clock += costs_.device[OperatorId(program_.subject[launch])].count();
  }
  for (BlockUse use : program_.uses_of(launch)) {
    if (use.access() != Access::kCreate || !restorable(use.block())) continue;
    e.made[use.block().index()] = 1;
    access(use.block());
    e.policy->made(use.block());
  }
  close_launch(launch);
  e.prepared = kNone;
}

// All inputs are there. Outputs that still are, too, are written again with the same content; what
// the program has let go comes back as well and stays until it is chosen.
template <class A>
bool Engine<A>::repeat(std::uint32_t launch) {
  Evictor& e = evictor_;
  std::vector<BlockId> back;
  std::vector<BlockId> scratch;
  for (BlockUse use : program_.uses_of(launch)) {
    const BlockId block = use.block();
    if (use.access() != Access::kCreate || e.resident[block.index()] != 0) continue;
    if (!allocate_device(block, program_.blocks[block].bytes.count)) {
      if (!stopped_) fail(RunStatus::kOutOfMemory, block);
      return false;
    }
    change_live(block, +1);
    record(block, +1);
    note_peaks();
    (restorable(block) && e.gone[block.index()] == 0 ? back : scratch).push_back(block);
  }
  const OperatorId op(program_.subject[launch]);
  host_ += costs_.dispatch[op].count();
  injected_ += costs_.device[op].count();
  e.clock += costs_.device[op].count();
  e.repeated += costs_.device[op].count();
  ++result_.restores;
  if (e.check) e.check->repeat(launch);
  for (BlockId block : back) {
    ++e.restores[block.index()];
    e.policy->restored(block);
  }
  for (BlockId block : scratch)
    drop(block);
  close_launch(launch);
  if (e.policy->mode() == DeallocationMode::kBanish) {
    for (BlockUse use : program_.uses_of(launch)) {
      const BlockId input = use.block();
      if (use.access() != Access::kRead || !restorable(input)) continue;
      if (e.owned[input.index()] == 0 && e.pins[input.index()] == 0) banish(input);
    }
  }
  if (static_cast<double>(e.repeated) > e.limit) {
    fail(RunStatus::kThrash);
    return false;
  }
  return true;
}

}  // namespace
}  // namespace tidemark
