// Eviction: allocations are dropped when an allocation fails and recomputed when something needs
// them, as in DTR (Kirisame et al. 2021). An operator's inputs are restored and held before its
// outputs are allocated; what it needs is computed depth first; and whatever comes back may be
// dropped again.
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
  const std::size_t allocations = program_.allocations.size();
  Evictor& e = evictor_;
  e.policy = options_.eviction;
  e.facts = eviction_facts(program_, costs_);
  e.resident.assign(allocations, 0);
  e.owned.assign(allocations, 0);
  e.written.assign(allocations, 0);
  e.banished.assign(allocations, 0);
  e.must_stay.assign(allocations, 0);
  e.listed.assign(allocations, 0);
  e.use_count.assign(allocations, 0);
  e.previous.assign(allocations, kNone);
  e.next.assign(allocations, kNone);
  e.restores.assign(allocations, 0);
  e.last_access.assign(allocations, 0);
  e.limit = static_cast<double>(e.facts.compute.count()) * (e.policy->thrash_factor() - 1);
  e.first_child.assign(allocations + 1, 0);
  for (const RecipeInput& input : e.facts.recipes)
    ++e.first_child[input.from.index() + 1];
  for (std::size_t b = 0; b < allocations; ++b)
    e.first_child[b + 1] += e.first_child[b];
  e.children.resize(e.facts.recipes.size());
  std::vector<std::uint32_t> at(e.first_child.begin(), e.first_child.end() - 1);
  for (const RecipeInput& input : e.facts.recipes)
    e.children[at[input.from.index()]++] = input.to.value;
  if (options_.check_contents) e.check.emplace(program_);
  e.policy->begin({.allocations = allocations, .cost = e.facts.cost, .recipes = e.facts.recipes});
  scratch_.restored.assign(program_.size(), 0);
}

// Allocations enter the pool at its end.
template <class A>
void Engine<A>::update_pool(AllocationId allocation) {
  Evictor& e = evictor_;
  const std::size_t b = allocation.index();
  // Memory that the program has freed need be valid only for recipes.
  const bool droppable = e.facts.evictable[b] != 0 || (restorable(allocation) && e.owned[b] == 0);
  const bool in = droppable && e.resident[b] != 0 && e.written[b] != 0 && e.must_stay[b] == 0 &&
                  e.use_count[b] == 0 && program_.allocations[allocation].bytes.count > 0;
  if (in == (e.listed[b] != 0)) return;
  e.listed[b] = in ? 1 : 0;
  if (in) {
    e.previous[b] = e.last;
    e.next[b] = kNone;
    (e.last == kNone ? e.first : e.next[e.last]) = allocation.value;
    e.last = allocation.value;
  } else {
    (e.previous[b] == kNone ? e.first : e.next[e.previous[b]]) = e.next[b];
    (e.next[b] == kNone ? e.last : e.previous[e.next[b]]) = e.previous[b];
  }
}

template <class A>
void Engine<A>::add_use(AllocationId allocation) {
  if (evictor_.use_count[allocation.index()]++ == 0) update_pool(allocation);
}

template <class A>
void Engine<A>::drop_use(AllocationId allocation) {
  if (--evictor_.use_count[allocation.index()] == 0) update_pool(allocation);
}

template <class A>
void Engine<A>::access(AllocationId allocation) {
  if (!restorable(allocation)) return;
  evictor_.last_access[allocation.index()] = evictor_.clock;
  evictor_.policy->accessed(allocation, Duration(evictor_.clock));
}

template <class A>
void Engine<A>::drop(AllocationId allocation) {
  give_back(allocation);
  evictor_.resident[allocation.index()] = 0;
  update_pool(allocation);
  change_live(allocation, -1);
  record(allocation, -1);
  if (evictor_.check) evictor_.check->lose(allocation);
}

// Handles the program's last reference to an allocation that can be recomputed.
template <class A>
void Engine<A>::release(AllocationId allocation) {
  Evictor& e = evictor_;
  const std::size_t b = allocation.index();
  e.owned[b] = 0;
  const DeallocationMode mode = e.policy->mode();
  if (mode == DeallocationMode::kIgnore) {
    update_pool(allocation);
    return;
  }
  if (mode == DeallocationMode::kBanish && banish(allocation)) return;
  if (e.resident[b] == 0 || e.must_stay[b] != 0) return;
  drop(allocation);
  e.policy->released(allocation, false);
}

// Frees an allocation permanently, unless an evicted allocation is computed from it. Allocations
// that were computed from it cannot be recomputed any more.
template <class A>
bool Engine<A>::banish(AllocationId allocation) {
  Evictor& e = evictor_;
  const std::size_t b = allocation.index();
  if (e.banished[b] != 0) return false;
  const auto children =
      std::span(e.children).subspan(e.first_child[b], e.first_child[b + 1] - e.first_child[b]);
  for (const std::uint32_t child : children) {
    if (e.written[child] != 0 && e.resident[child] == 0 && e.banished[child] == 0) return false;
  }
  if (e.resident[b] != 0) drop(allocation);
  e.banished[b] = 1;
  e.policy->released(allocation, true);
  for (const std::uint32_t child : children) {
    if (e.banished[child] != 0) continue;
    e.must_stay[child] = 1;
    update_pool(AllocationId(child));
  }
  return true;
}

template <class A>
void Engine<A>::list_evictable() {
  Evictor& e = evictor_;
  e.view.clear();
  for (std::uint32_t b = e.first; b != kNone; b = e.next[b]) {
    const AllocationId allocation(b);
    Bytes free_neighbours;
    if constexpr (SegmentAllocator<A>) {
      const auto* piece = allocator_.given(allocation);
      for (const auto* other : {piece->previous, piece->next}) {
        if (other != nullptr && other->is_free()) free_neighbours += other->size;
      }
    }
    e.view.push_back({.allocation = allocation,
                      .bytes = program_.allocations[allocation].bytes,
                      .address = allocator_.address(allocation),
                      .free_neighbours = free_neighbours,
                      .last_access = Duration(e.last_access[b]),
                      .recompute_cost = e.facts.cost[b],
                      .restores = e.restores[b]});
  }
}

// Lists pieces of memory by address. A neighbour that can be dropped itself is found twice: the
// first entry is the one that counts.
template <class Piece>
void list_by_address(std::vector<std::pair<const Piece*, std::uint32_t>>& found,
                     std::vector<MemoryPiece>& pieces) {
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.first->address != b.first->address ? a.first->address < b.first->address
                                                : a.second < b.second;
  });
  const Piece* before = nullptr;
  for (const auto& [piece, content] : found) {
    if (piece == before) continue;
    pieces.push_back({.address = piece->address,
                      .bytes = piece->size,
                      .content = content,
                      .adjoins = before != nullptr && before->next == piece});
    before = piece;
  }
}

// Lists the allocations that can be dropped and their direct neighbours in memory.
template <class A>
void Engine<A>::list_pieces([[maybe_unused]] Bytes requested) {
  evictor_.pieces.clear();
  if constexpr (SegmentAllocator<A>) {
    using Piece = std::remove_pointer_t<decltype(allocator_.given(AllocationId()))>;
    std::vector<std::pair<const Piece*, std::uint32_t>> found;
    for (std::uint32_t i = 0; i < evictor_.view.size(); ++i) {
      const Piece* piece = allocator_.given(evictor_.view[i].allocation);
      if (!piece->serves(requested)) continue;
      found.emplace_back(piece, i);
      for (const Piece* other : {piece->previous, piece->next}) {
        if (other == nullptr) continue;
        found.emplace_back(other, other->is_free() ? MemoryPiece::kFree : MemoryPiece::kHeld);
      }
    }
    list_by_address(found, evictor_.pieces);
  }
}

template <class A>
bool Engine<A>::evict_some(Bytes requested) {
  Evictor& e = evictor_;
  list_evictable();
  if (e.view.empty()) return false;
  if (e.policy->looks_at_addresses()) list_pieces(requested);
  const std::vector<std::size_t> victims = e.policy->choose(
      {.now = Duration(e.clock), .requested = requested, .evictable = e.view, .pieces = e.pieces});
  for (const std::size_t victim : victims) {
    if (victim >= e.view.size() || e.listed[e.view[victim].allocation.index()] == 0) {
      throw InternalError(fmt::format("the eviction policy '{}' chose number {} of {} allocations",
                                      e.policy->name(), victim, e.view.size()));
    }
    const AllocationId allocation = e.view[victim].allocation;
    drop(allocation);
    e.policy->evicted(allocation);
    ++result_.evictions;
  }
  return !victims.empty();
}

// Everything that a launch reads and writes is held until it has run; missing inputs are held once
// they are restored.
template <class A>
void Engine<A>::open_launch(std::uint32_t launch) {
  Evictor& e = evictor_;
  const bool banishes = e.policy->mode() == DeallocationMode::kBanish;
  const std::size_t begin = e.missing.size();
  for (AllocationUse use : program_.uses_of(launch)) {
    const AllocationId allocation = use.allocation();
    const std::size_t b = allocation.index();
    const bool reads = use.access() == Access::kRead;
    if (reads && (!banishes || e.owned[b] != 0)) access(allocation);
    if (!reads || !restorable(allocation) || e.resident[b] != 0) {
      add_use(allocation);
      continue;
    }
    if (e.banished[b] != 0 || e.written[b] == 0) {
      throw InternalError(
          fmt::format("instruction {} needs allocation {}, which cannot be recomputed", launch,
                      allocation.value));
    }
    e.missing.push_back(allocation);
  }
  e.frames.push_back({launch, begin, begin});
}

// Outputs enter the pool before inputs do.
template <class A>
void Engine<A>::close_launch(std::uint32_t launch) {
  for (const bool outputs : {true, false}) {
    for (AllocationUse use : program_.uses_of(launch)) {
      if ((use.access() == Access::kCreate) == outputs) drop_use(use.allocation());
    }
  }
}

// Restores the inputs of the program's next launch, before memory is taken for its outputs: depth
// first, without recursion, since chains of evicted allocations are as long as the program.
template <class A>
void Engine<A>::prepare_launch(std::uint32_t launch) {
  Evictor& e = evictor_;
  if (e.prepared == launch) return;
  e.prepared = launch;
  open_launch(launch);
  while (!e.frames.empty()) {
    Evictor::Frame& frame = e.frames.back();
    if (frame.next < e.missing.size()) {
      const AllocationId allocation = e.missing[frame.next];
      if (e.resident[allocation.index()] == 0) {
        open_launch(e.facts.producer[allocation.index()]);  // `frame` is no longer valid
      } else {
        add_use(allocation);
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
  for (AllocationUse use : program_.uses_of(launch)) {
    if (use.access() != Access::kCreate || !restorable(use.allocation())) continue;
    e.written[use.allocation().index()] = 1;
    access(use.allocation());
    e.policy->made(use.allocation());
  }
  close_launch(launch);
  e.prepared = kNone;
}

// Banishes inputs that the program has freed and that came back only for this launch.
template <class A>
void Engine<A>::banish_inputs(std::uint32_t launch) {
  Evictor& e = evictor_;
  for (AllocationUse use : program_.uses_of(launch)) {
    const AllocationId input = use.allocation();
    if (use.access() != Access::kRead || !restorable(input)) continue;
    if (e.owned[input.index()] == 0 && e.use_count[input.index()] == 0) banish(input);
  }
}

// Recomputes a launch whose inputs are all resident. Outputs that are still resident are written
// again with the same content; outputs that the program has freed come back as well and stay until
// they are chosen.
template <class A>
bool Engine<A>::repeat(std::uint32_t launch) {
  Evictor& e = evictor_;
  std::vector<AllocationId> back;
  std::vector<AllocationId> scratch;
  for (AllocationUse use : program_.uses_of(launch)) {
    const AllocationId allocation = use.allocation();
    if (use.access() != Access::kCreate || e.resident[allocation.index()] != 0) continue;
    if (!allocate_device(allocation, program_.allocations[allocation].bytes)) {
      if (!stopped_) fail(RunStatus::kOutOfMemory, allocation);
      return false;
    }
    change_live(allocation, +1);
    record(allocation, +1);
    note_peaks();
    (restorable(allocation) && e.banished[allocation.index()] == 0 ? back : scratch)
        .push_back(allocation);
  }
  const OperatorId op(program_.subject[launch]);
  host_ += costs_.dispatch[op].count();
  injected_ += costs_.device[op].count();
  e.clock += costs_.device[op].count();
  e.repeated += costs_.device[op].count();
  ++result_.restores;
  if (e.check) e.check->repeat(launch);
  for (AllocationId allocation : back) {
    ++e.restores[allocation.index()];
    e.policy->restored(allocation);
  }
  for (AllocationId allocation : scratch)
    drop(allocation);
  close_launch(launch);
  if (e.policy->mode() == DeallocationMode::kBanish) banish_inputs(launch);
  if (static_cast<double>(e.repeated) > e.limit) {
    fail(RunStatus::kThrash);
    return false;
  }
  return true;
}

}  // namespace
}  // namespace tidemark
