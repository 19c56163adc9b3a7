#include "sim/memory/torch/torch_caching_allocator.hpp"

#include <algorithm>
#include <bit>

namespace tidemark {
namespace torch_caching_allocator_detail {
namespace {

// Sizes from c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.4.
constexpr Bytes kMinBlockSize{512};
constexpr Bytes kSmallSize = kMiB;         // largest block of a small pool
constexpr Bytes kSmallBuffer = 2 * kMiB;   // segment of a small pool
constexpr Bytes kLargeBuffer = 20 * kMiB;  // segment below kMinLargeAlloc
constexpr Bytes kMinLargeAlloc = 10 * kMiB;
constexpr Bytes kRoundLarge = 2 * kMiB;  // unit of larger segments
constexpr int kFirstInterval = 20;       // log2 of 1 MiB

// Rounds up to the next of `divisions` equal steps between two powers of two.
Bytes round_to_division(Bytes size, std::int64_t divisions) {
  const auto bits = static_cast<std::uint64_t>(size.count);
  if (std::has_single_bit(bits)) return size;
  const auto floor = static_cast<std::int64_t>(std::bit_floor(bits));
  const std::int64_t step = floor >> std::countr_zero(static_cast<std::uint64_t>(divisions));
  return step == 0 ? Bytes(2 * floor) : round_up(size, Bytes(step));
}

}  // namespace
}  // namespace torch_caching_allocator_detail

TorchCachingAllocator::TorchCachingAllocator(Bytes capacity, const TorchAllocatorOptions& options,
                                             Bytes taken)
    : options_(options),
      device_(capacity, taken),
      allowed_(capacity),
      rounds_to_divisions_(std::any_of(options.roundup_power2_divisions.begin(),
                                       options.roundup_power2_divisions.end(),
                                       [](std::int64_t divisions) { return divisions > 1; })),
      collects_garbage_(options.memory_fraction.has_value() &&
                        options.garbage_collection_threshold > 0) {
  if (options.memory_fraction) {
    allowed_ = Bytes(
        static_cast<std::int64_t>(*options.memory_fraction * static_cast<double>(capacity.count)));
  }
}

void TorchCachingAllocator::reserve(std::size_t blocks) {
  // Each block leaves at most one free block behind it; the rest are segments that are free.
  arena_.reserve(3 * blocks + kSpareBlocks);
  if (options_.expandable_segments) to_unmap_.reserve(2 * blocks + kSpareBlocks);
}

TorchStream TorchCachingAllocator::stream(std::int64_t handle) {
  const auto at = std::lower_bound(
      by_handle_.begin(), by_handle_.end(), handle,
      [&](TorchStream known, std::int64_t value) { return streams_[known]->handle < value; });
  if (at != by_handle_.end() && streams_[*at]->handle == handle) return *at;
  const auto added = static_cast<TorchStream>(streams_.size());
  streams_.emplace_back(std::make_unique<Stream>())->handle = handle;
  by_handle_.insert(at, added);
  return added;
}

TorchStream TorchCachingAllocator::begin_capture(TorchStream stream) {
  capturing_ = true;
  const std::int64_t handle = streams_[stream]->handle;
  Stream& pool = *streams_.emplace_back(std::make_unique<Stream>());
  pool.handle = handle;
  pool.is_private = true;
  return static_cast<TorchStream>(streams_.size() - 1);
}

Bytes TorchCachingAllocator::rounded(Bytes bytes) const {
  if (bytes < torch_caching_allocator_detail::kMinBlockSize)
    return torch_caching_allocator_detail::kMinBlockSize;
  if (rounds_to_divisions_) {
    const int log2 = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes.count))) - 1;
    const int interval = std::clamp(log2 - torch_caching_allocator_detail::kFirstInterval, 0,
                                    int{kRoundupIntervals} - 1);
    const std::int64_t divisions =
        options_.roundup_power2_divisions[static_cast<std::size_t>(interval)];
    if (divisions > 1 && bytes / divisions >= torch_caching_allocator_detail::kMinBlockSize &&
        bytes > torch_caching_allocator_detail::kMinBlockSize * divisions) {
      return torch_caching_allocator_detail::round_to_division(bytes, divisions);
    }
  }
  return round_up(bytes, torch_caching_allocator_detail::kMinBlockSize);
}

Bytes TorchCachingAllocator::segment_size(Bytes size) {
  if (size <= torch_caching_allocator_detail::kSmallSize)
    return torch_caching_allocator_detail::kSmallBuffer;
  if (size < torch_caching_allocator_detail::kMinLargeAlloc)
    return torch_caching_allocator_detail::kLargeBuffer;
  return round_up(size, torch_caching_allocator_detail::kRoundLarge);
}

TorchCachingAllocator::Request TorchCachingAllocator::request_for(Bytes bytes,
                                                                  TorchStream stream) const {
  const Bytes size = rounded(bytes);
  return {.bytes = bytes,
          .size = size,
          .segment = segment_size(size),
          .stream = stream,
          .large = size > torch_caching_allocator_detail::kSmallSize};
}

TorchBlock* TorchCachingAllocator::allocate(Bytes bytes, TorchStream stream) {
  TorchBlock* block = allocate_without_retry(bytes, stream);
  if (block != nullptr) return block;
  if (capturing_) {
    note_out_of_memory(bytes, stream);
    return nullptr;
  }
  empty_cache();
  block = allocate_again(bytes, stream);
  if (block == nullptr) note_out_of_memory(bytes, stream);
  return block;
}

TorchBlock* TorchCachingAllocator::allocate_without_retry(Bytes bytes, TorchStream stream) {
  if (events_ > 0 && !capturing_) process_events();
  const Request request = request_for(bytes, stream);
  if (TorchBlock* pooled = find_free(request)) return hand_out(request, pooled, true);
  if (collects_garbage_) collect_garbage();
  TorchBlock* block = new_segment(request);
  if (block == nullptr && release_available(request)) block = new_segment(request);
  return block == nullptr ? nullptr : hand_out(request, block, false);
}

// Asks only the device, since the pools have been searched before release_cached().
TorchBlock* TorchCachingAllocator::allocate_again(Bytes bytes, TorchStream stream) {
  ++statistics_.num_alloc_retries;
  const Request request = request_for(bytes, stream);
  TorchBlock* block = new_segment(request);
  return block == nullptr ? nullptr : hand_out(request, block, false);
}

// Finds the best fit on the stream; it stays in its pool. Only the first candidate is looked at, so
// an oversize block may hide a fitting one behind it.
TorchBlock* TorchCachingAllocator::find_free(const Request& request) {
  if (collects_garbage_) ++searches_[request.large ? 1 : 0];
  const Bytes size = request.size;
  TorchBlock* found = streams_[request.stream]->pools[request.large ? 1 : 0].free.at_least(size);
  if (found == nullptr) return nullptr;
  if (found->is_expandable()) {
    // A block before unmapped space counts with the size that it can grow to.
    const auto growable = [](const TorchBlock& block) {
      const bool grows = block.next != nullptr && !block.next->mapped;
      return block.size + (grows ? block.next->size : Bytes(0));
    };
    for (TorchBlock* next = found->larger;
         found->is_expandable() && next != nullptr && growable(*next) < growable(*found);
         next = next->larger) {
      found = next;
    }
  }
  const Bytes limit = options_.max_split_size;
  if (size < limit && found->size >= limit) return nullptr;
  if (size >= limit && found->size >= size + torch_caching_allocator_detail::kLargeBuffer)
    return nullptr;
  return found;
}

TorchBlock* TorchCachingAllocator::new_segment(const Request& request) {
  const Bytes reserved = statistics_.reserved_bytes.all.current;
  if (options_.memory_fraction && request.segment > allowed_ - reserved) return nullptr;
  // Private pools have no expandable segments in 2.4.
  if (options_.expandable_segments && !streams_[request.stream]->is_private) return expand(request);
  const Bytes address = device_.allocate(request.segment);
  if (address == FakeDevice::kFailed) return nullptr;
  TorchBlock* block = arena_.take();
  block->size = request.segment;
  block->address = address;
  block->stream = request.stream;
  block->large = request.large;
  statistics_.segment.add(request.large, 1);
  statistics_.reserved_bytes.add(request.large, request.segment);
  if (request.segment >= options_.max_split_size) statistics_.oversize_segments.add(1);
  ++statistics_.num_device_alloc;
  note(SegmentAction::kAlloc, address, request.segment, request.stream);
  return block;
}

bool TorchCachingAllocator::should_split(const TorchBlock& block, Bytes size) const {
  const Bytes rest = block.size - size;
  if (!block.large || options_.expandable_segments)
    return rest >= torch_caching_allocator_detail::kMinBlockSize;
  return size < options_.max_split_size && rest > torch_caching_allocator_detail::kSmallSize;
}

// Hands out the front; the tail is a free block, the one that was in the pool if the block was
// `pooled`. An unsplit tail counts as allocated.
TorchBlock* TorchCachingAllocator::hand_out(const Request& request, TorchBlock* block,
                                            bool pooled) {
  const bool was_split = block->is_split();
  const bool counts = !block->is_expandable();  // counts in inactive_split
  const bool large = request.large;
  if (should_split(*block, request.size)) {
    TorchBlock* tail = block;
    block = new_block_between(tail->previous, tail, *tail);
    block->size = request.size;
    block->address = tail->address;
    tail->size -= request.size;
    tail->address += request.size;
    if (pooled) {
      move_free(*tail);
    } else {
      insert_free(*tail);
    }
    if (counts && was_split) {
      statistics_.inactive_split_bytes.fall(large, request.size);
    } else if (counts) {
      statistics_.inactive_split_bytes.rise(large, tail->size);
      statistics_.inactive_split.rise(large, 1);
    }
  } else {
    if (pooled) take_from_pool(*block);
    if (counts && was_split) {
      statistics_.inactive_split_bytes.fall(large, block->size);
      statistics_.inactive_split.fall(large, 1);
    }
  }
  block->allocated = true;
  block->requested = request.bytes;
  statistics_.allocation.rise(large, 1);
  statistics_.active.rise(large, 1);
  statistics_.allocated_bytes.rise(large, block->size);
  statistics_.active_bytes.rise(large, block->size);
  statistics_.requested_bytes.rise(large, request.bytes);
  if (block->size >= options_.max_split_size) statistics_.oversize_allocations.add(1);
  return block;
}

void TorchCachingAllocator::insert_free(TorchBlock& block) {
  block.searches = searches_[block.large ? 1 : 0];
  pool_of(block).free.insert(block);
}

void TorchCachingAllocator::take_from_pool(TorchBlock& block) {
  pool_of(block).free.erase(block);
}

// Puts a free block that has grown or shrunk in its place.
void TorchCachingAllocator::move_free(TorchBlock& block) {
  block.searches = searches_[block.large ? 1 : 0];
  pool_of(block).free.reorder(block);
}

void TorchCachingAllocator::free(TorchBlock& block) {
  begin_free(block);
  if (block.uses == kNoLink) {
    complete_free(block);
  } else {
    insert_events(block);
  }
}

void TorchCachingAllocator::defer_free(TorchBlock& block) {
  begin_free(block);
  block.pending_events = 1;
}

void TorchCachingAllocator::begin_free(TorchBlock& block) {
  block.allocated = false;
  statistics_.allocation.fall(block.large, 1);
  statistics_.allocated_bytes.fall(block.large, block.size);
  if (block.size >= options_.max_split_size) statistics_.oversize_allocations.add(-1);
}

// Whether a neighbour of a block that becomes free becomes one block with it.
bool TorchCachingAllocator::joins(const TorchBlock* neighbour) {
  return neighbour != nullptr && neighbour->is_free();
}

// Joins the free neighbours of the same segment. One of them stays in the pool and takes the block
// in, so that the pool rarely changes its order.
void TorchCachingAllocator::complete_free(TorchBlock& block) {
  const bool large = block.large;
  const Bytes size = block.size;
  const Bytes requested = block.requested;
  TorchBlock* const before = joins(block.previous) ? block.previous : nullptr;
  TorchBlock* const after = joins(block.next) ? block.next : nullptr;
  std::int64_t split_blocks = 0;
  Bytes split_bytes;
  for (const TorchBlock* neighbour : {before, after}) {
    if (neighbour == nullptr) continue;
    --split_blocks;
    split_bytes -= neighbour->size;
  }
  TorchBlock* free = &block;
  if (before != nullptr) {
    if (after != nullptr) merge(block, after);
    free = before;
    absorb(*before, block);
    move_free(*before);
  } else if (after != nullptr) {
    free = after;
    absorb(*after, block);
    move_free(*after);
  } else {
    insert_free(block);
  }
  if (free->is_split()) {
    ++split_blocks;
    split_bytes += free->size;
  }
  if (!free->is_expandable()) {
    statistics_.inactive_split.add(large, split_blocks);
    statistics_.inactive_split_bytes.add(large, split_bytes);
  }
  statistics_.active.fall(large, 1);
  statistics_.active_bytes.fall(large, size);
  statistics_.requested_bytes.fall(large, requested);
}

// Merges a neighbour that is free, or unmapped like the block.
void TorchCachingAllocator::merge(TorchBlock& into, TorchBlock* neighbour) {
  if (neighbour == nullptr || !neighbour->is_idle() || neighbour->mapped != into.mapped) return;
  if (neighbour->mapped) {
    take_from_pool(*neighbour);
  } else {
    Pool& pool = pool_of(*neighbour);
    pool.unmapped.erase(pool.unmapped.iterator_to(*neighbour));
  }
  absorb(into, *neighbour);
}

// Adds a neighbour that is in no pool; its block disappears.
void TorchCachingAllocator::absorb(TorchBlock& into, TorchBlock& neighbour) {
  if (into.previous == &neighbour) {
    into.address = neighbour.address;
    into.previous = neighbour.previous;
    if (into.previous != nullptr) into.previous->next = &into;
  } else {
    into.next = neighbour.next;
    if (into.next != nullptr) into.next->previous = &into;
  }
  into.size += neighbour.size;
  arena_.give_back(&neighbour);
}

// Returns a block of the same segment or range; the caller sets its size and address.
TorchBlock* TorchCachingAllocator::new_block_between(TorchBlock* previous, TorchBlock* next,
                                                     const TorchBlock& like) {
  TorchBlock* block = arena_.take();
  block->stream = like.stream;
  block->large = like.large;
  block->range = like.range;
  block->previous = previous;
  block->next = next;
  if (previous != nullptr) previous->next = block;
  if (next != nullptr) next->previous = block;
  return block;
}

void TorchCachingAllocator::note(SegmentAction action, Bytes address, Bytes size,
                                 TorchStream stream) {
  if (!records_segment_events_) return;
  segment_events_.push_back({.action = action, .address = address, .size = size, .stream = stream});
}

}  // namespace tidemark
