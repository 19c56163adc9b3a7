// The pieces that PyTorch's caching allocator cuts its segments into.
#pragma once

#include <cstdint>

#include <boost/intrusive/set.hpp>

#include "graph/core/units.hpp"

namespace tidemark {

using TorchStream = std::uint32_t;  // dense index of a stream; TorchCachingAllocator::stream()

// Neighbours in address order are linked: the allocator walks from a block to both sides at every
// free, which is why these are pointers into an arena and not ids.
//
//   segment  |  a  |   free   |  b  |  free  |      previous <- block -> next
//   range    |  a  | free | unmapped address space ...
struct TorchBlock
    : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>,
                                      boost::intrusive::link_mode<boost::intrusive::normal_link>> {
  Bytes size;
  Bytes address;
  TorchBlock* previous = nullptr;
  TorchBlock* next = nullptr;
  // The free blocks next to it in the order of its pool; null at its ends.
  TorchBlock* smaller = nullptr;
  TorchBlock* larger = nullptr;
  Bytes requested;  // size asked for by the last owner, before rounding
  Bytes range{-1};  // start of its expandable range; -1: made by cudaMalloc
  // searches of the pool when it became free; only counted with collection
  std::uint64_t searches = 0;
  TorchStream stream = 0;
  std::uint32_t uses = 0;            // list of other streams that recorded it; 0 is none
  std::uint32_t pending_events = 0;  // streams that it waits for before it is free
  std::uint16_t size_class = 0;      // where TorchFreeBlocks has put it
  bool large = false;
  bool allocated = false;
  bool mapped = true;

  [[nodiscard]] bool is_split() const { return previous != nullptr || next != nullptr; }
  [[nodiscard]] bool is_expandable() const { return range >= Bytes(0); }
  [[nodiscard]] bool is_idle() const { return !allocated && pending_events == 0 && uses == 0; }
  [[nodiscard]] bool is_free() const { return mapped && is_idle(); }
  // Whether requests of this size use its pool: up to 1 MiB (kSmallSize) have a pool of their own.
  [[nodiscard]] bool serves(Bytes bytes) const { return large == (bytes > kMiB); }
  [[nodiscard]] Bytes end() const { return address + size; }
};

// The order of a pool. A size comes before all blocks of it: the first block that is not before a
// size is the smallest of at least that size, the lowest of several.
struct TorchBySize {
  bool operator()(const TorchBlock& a, const TorchBlock& b) const {
    return a.size != b.size ? a.size < b.size : a.address < b.address;
  }
  bool operator()(const TorchBlock& block, Bytes size) const { return block.size < size; }
};
struct TorchByAddress {
  bool operator()(const TorchBlock& a, const TorchBlock& b) const { return a.address < b.address; }
};

}  // namespace tidemark
