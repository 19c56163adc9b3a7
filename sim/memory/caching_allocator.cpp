#include "sim/memory/caching_allocator.hpp"

#include "graph/core/errors.hpp"

namespace tidemark {
namespace {

// PyTorch CUDACachingAllocator.
constexpr std::int64_t kMinBlock = 512;
constexpr std::int64_t kSmallSize = std::int64_t{1} << 20;  // largest block of the small pool
constexpr std::int64_t kSmallSegment = std::int64_t{2} << 20;
constexpr std::int64_t kLargeSegment = std::int64_t{20} << 20;  // for requests below kMinLarge
constexpr std::int64_t kMinLarge = std::int64_t{10} << 20;
constexpr std::int64_t kRoundLarge = std::int64_t{2} << 20;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

constexpr std::int64_t segment_size(std::int64_t size) {
  if (size <= kSmallSize) return kSmallSegment;
  if (size < kMinLarge) return kLargeSegment;
  return round_up(size, kRoundLarge);
}

}  // namespace

void CachingAllocator::reserve(std::size_t blocks) {
  // At any time each block owns one chunk and leaves at most one free chunk behind it, and each
  // segment adds one more.
  const std::size_t most = blocks * 3 + 16;
  chunks_.reserve(most);
  unused_.reserve(most);
  chunk_of_.assign(blocks, kNone);
  deferred_.assign(blocks, 0);
}

std::uint32_t CachingAllocator::new_chunk() {
  if (!unused_.empty()) {
    const std::uint32_t id = unused_.back();
    unused_.pop_back();
    return id;
  }
  if (chunks_.size() == chunks_.capacity()) {
    throw InternalError("the caching allocator has run out of chunks");
  }
  chunks_.emplace_back();
  return static_cast<std::uint32_t>(chunks_.size() - 1);
}

std::uint32_t CachingAllocator::find_free(std::int64_t size, bool large) {
  FreeSet& pool = free_[large ? 1 : 0];
  Chunk key;
  key.size = size;
  key.address = -1;
  const auto found = pool.lower_bound(key);
  if (found == pool.end()) return kNone;
  Chunk& chunk = *found;
  pool.erase(found);
  return index_of(chunk);
}

std::uint32_t CachingAllocator::new_segment(std::int64_t size, bool large) {
  const std::int64_t bytes = segment_size(size);
  if (reserved_ + bytes > capacity_) return kNone;
  reserved_ += bytes;
  ++segments_;
  const std::uint32_t id = new_chunk();
  Chunk& chunk = chunks_[id];
  chunk.size = bytes;
  chunk.address = next_address_;
  chunk.previous = kNone;
  chunk.next = kNone;
  chunk.large = large;
  next_address_ += round_up(bytes, kRoundLarge);
  return id;
}

// The front is handed out, the tail becomes a free chunk.
void CachingAllocator::split(std::uint32_t id, std::int64_t size) {
  const std::int64_t rest = chunks_[id].size - size;
  const bool large = chunks_[id].large;
  const bool worth_it = large ? rest > kSmallSize : rest >= kMinBlock;
  if (!worth_it) return;
  const std::uint32_t tail = new_chunk();
  Chunk& front = chunks_[id];
  Chunk& back = chunks_[tail];
  back.size = rest;
  back.address = front.address + size;
  back.previous = id;
  back.next = front.next;
  back.large = large;
  if (front.next != kNone) chunks_[front.next].previous = tail;
  front.next = tail;
  front.size = size;
  free_[large ? 1 : 0].insert(back);
}

Allocation CachingAllocator::allocate(BlockId block, std::int64_t bytes) {
  const std::int64_t size = bytes < kMinBlock ? kMinBlock : round_up(bytes, kMinBlock);
  const bool large = size > kSmallSize;
  Allocation result;
  std::uint32_t id = find_free(size, large);
  if (id == kNone) {
    result.device_mallocs = 1;
    id = new_segment(size, large);
    if (id == kNone) return result;
  }
  split(id, size);
  chunk_of_[block.index()] = id;
  allocated_ += chunks_[id].size;
  active_ += chunks_[id].size;
  result.ok = true;
  return result;
}

std::uint32_t CachingAllocator::merge(std::uint32_t left, std::uint32_t right) {
  Chunk& l = chunks_[left];
  const Chunk& r = chunks_[right];
  l.size += r.size;
  l.next = r.next;
  if (r.next != kNone) chunks_[r.next].previous = left;
  unused_.push_back(right);
  return left;
}

void CachingAllocator::defer_free(BlockId block) {
  allocated_ -= chunks_[chunk_of_[block.index()]].size;
  deferred_[block.index()] = 1;
}

void CachingAllocator::free(BlockId block) {
  std::uint32_t id = chunk_of_[block.index()];
  const std::int64_t size = chunks_[id].size;
  active_ -= size;
  if (deferred_[block.index()] != 0) {
    deferred_[block.index()] = 0;
  } else {
    allocated_ -= size;
  }
  chunk_of_[block.index()] = kNone;
  FreeSet& pool = free_[chunks_[id].large ? 1 : 0];
  const auto is_free = [&](std::uint32_t other) {
    return other != kNone && chunks_[other].is_linked();
  };
  if (is_free(chunks_[id].next)) {
    pool.erase(pool.iterator_to(chunks_[chunks_[id].next]));
    merge(id, chunks_[id].next);
  }
  if (is_free(chunks_[id].previous)) {
    const std::uint32_t left = chunks_[id].previous;
    pool.erase(pool.iterator_to(chunks_[left]));
    id = merge(left, id);
  }
  pool.insert(chunks_[id]);
}

int CachingAllocator::release_cached() {
  int released = 0;
  for (FreeSet& pool : free_) {
    for (auto it = pool.begin(); it != pool.end();) {
      Chunk& chunk = *it;
      if (chunk.previous != kNone || chunk.next != kNone) {
        ++it;
        continue;
      }
      it = pool.erase(it);
      reserved_ -= chunk.size;
      --segments_;
      ++released;
      unused_.push_back(index_of(chunk));
    }
  }
  return released;
}

}  // namespace tidemark
