// Ways to give memory back to the device, from the mildest to the last: garbage collection, blocks
// that are large enough for the request, and everything that is free.
#include <algorithm>

#include "sim/memory/torch/torch_caching_allocator.hpp"

namespace tidemark {

void TorchCachingAllocator::release_segment(TorchBlock& block) {
  take_from_pool(block);
  device_.free(block.size);
  ++statistics_.num_device_free;
  note(SegmentAction::kFree, block.address, block.size, block.stream);
  statistics_.segment.add(block.large, -1);
  statistics_.reserved_bytes.add(block.large, -block.size);
  if (block.size >= options_.max_split_size) statistics_.oversize_segments.add(-1);
  arena_.give_back(&block);
}

// Above the threshold, frees whole large segments that have not been used for longer than the
// average of them, until enough is reclaimed. Age is the number of searches since it became free.
void TorchCachingAllocator::collect_garbage() {
  const Bytes threshold(static_cast<std::int64_t>(options_.garbage_collection_threshold *
                                                  static_cast<double>(allowed_.count)));
  const Bytes excess = statistics_.reserved_bytes.all.current - threshold;
  if (excess <= Bytes(0)) return;
  const auto age = [&](const TorchBlock& block) { return searches_[1] - block.searches; };
  std::uint64_t total_age = 0;
  std::int64_t candidates = 0;
  for (TorchStream s : by_handle_) {
    for (const TorchBlock* b = streams_[s]->pools[1].free.smallest(); b != nullptr; b = b->larger) {
      if (b->is_split() || b->is_expandable()) continue;
      total_age += age(*b);
      ++candidates;
    }
  }
  Bytes reclaimed;
  for (bool freed = true; freed && reclaimed < excess && candidates > 0;) {
    freed = false;
    const double average = static_cast<double>(total_age) / static_cast<double>(candidates);
    for (TorchStream s : by_handle_) {
      TorchBlock* next = streams_[s]->pools[1].free.smallest();
      while (next != nullptr) {
        TorchBlock& block = *next;
        next = block.larger;
        if (block.is_split() || block.is_expandable()) continue;
        if (static_cast<double>(age(block)) < average) continue;
        freed = true;
        reclaimed += block.size;
        total_age -= age(block);
        --candidates;
        release_segment(block);
      }
    }
  }
}

// Gives back an oversize block that is large enough, or several, largest first; with max_split_size
// only. The freed ones stay freed even if they were not enough.
bool TorchCachingAllocator::release_available(const Request& request) {
  if (options_.max_split_size == kNoSplitLimit) return false;
  TorchFreeBlocks& free = streams_[request.stream]->pools[request.large ? 1 : 0].free;
  const Bytes wanted = std::max(request.size, options_.max_split_size);
  // Expandable segments cannot be freed one by one (PyTorch issue 123548).
  if (TorchBlock* enough = free.at_least(wanted)) {
    if (enough->is_expandable()) return false;
    release_segment(*enough);
    return true;
  }
  Bytes released;
  for (TorchBlock* next = free.largest(); next != nullptr && released < wanted;) {
    TorchBlock& block = *next;
    if (block.size < options_.max_split_size) break;
    next = block.smaller;
    if (block.is_expandable()) continue;
    released += block.size;
    release_segment(block);
  }
  return released >= wanted;
}

void TorchCachingAllocator::empty_cache() {
  finish_all_events();
  release_cached();
}

// Gives back every free block that is a whole segment, of all streams, and whole free pages of
// expandable ranges.
void TorchCachingAllocator::release_cached() {
  for (const std::size_t pool : {std::size_t{1}, std::size_t{0}}) {  // large blocks first
    for (TorchStream s : by_handle_)
      release_pool(streams_[s]->pools[pool]);
  }
}

void TorchCachingAllocator::release_pool(Pool& pool) {
  to_unmap_.clear();
  for (TorchBlock* next = pool.free.smallest(); next != nullptr;) {
    TorchBlock& block = *next;
    next = block.larger;
    if (block.is_expandable()) {
      to_unmap_.push_back(&block);  // unmapping changes the pool
    } else if (!block.is_split()) {
      release_segment(block);
    }
  }
  for (TorchBlock* block : to_unmap_) {
    unmap(*block);
    if (!block->is_split()) release_range(*block);
  }
}

}  // namespace tidemark
