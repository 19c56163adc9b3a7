#include "policies/eviction/online/eviction_pool.hpp"

#include <algorithm>

namespace tidemark {

void EvictionPool::insert(std::uint32_t x, double slope) {
  const std::size_t at = index(slope);
  Bucket& bucket = buckets_[at];
  if (bucket.heap.empty()) {
    used_[at / 64] |= std::uint64_t{1} << (at % 64);
    bucket.largest_slope = slope;
  } else {
    bucket.largest_slope = std::max(bucket.largest_slope, slope);
  }
  bucket_[x] = static_cast<std::uint16_t>(at);
  place_[x] = static_cast<std::uint32_t>(bucket.heap.size());
  bucket.heap.push_back({key_[x], slope, x});
  rise(bucket.heap, place_[x]);
  ++size_;
}

void EvictionPool::take_out(std::uint32_t x) {
  Bucket& bucket = buckets_[bucket_[x]];
  const std::uint32_t at = place_[x];
  const Entry moved = bucket.heap.back();
  bucket.heap.pop_back();
  if (moved.storage != x) {
    bucket.heap[at] = moved;
    place_[moved.storage] = at;
    rise(bucket.heap, at);
    sink(bucket.heap, place_[moved.storage]);
  }
  if (bucket.heap.empty()) {
    used_[bucket_[x] / 64U] &= ~(std::uint64_t{1} << (bucket_[x] % 64U));
  }
  --size_;
}

void EvictionPool::remove(std::uint32_t x) {
  take_out(x);
  place_[x] = kOut;
}

void EvictionPool::change_key(std::uint32_t x, std::int64_t key, double slope) {
  take_out(x);
  key_[x] = key;
  insert(x, slope);
}

void EvictionPool::change_slope(std::uint32_t x, double slope) {
  if (index(slope) == bucket_[x]) {
    Bucket& bucket = buckets_[bucket_[x]];
    bucket.largest_slope = std::max(bucket.largest_slope, slope);
    bucket.heap[place_[x]].slope = slope;
    return;
  }
  take_out(x);
  insert(x, slope);
}

void EvictionPool::rise(std::vector<Entry>& heap, std::uint32_t at) {
  const Entry entry = heap[at];
  while (at > 0) {
    const std::uint32_t parent = (at - 1) / 2;
    if (!before(entry, heap[parent])) break;
    heap[at] = heap[parent];
    place_[heap[at].storage] = at;
    at = parent;
  }
  heap[at] = entry;
  place_[entry.storage] = at;
}

void EvictionPool::sink(std::vector<Entry>& heap, std::uint32_t at) {
  const Entry entry = heap[at];
  for (;;) {
    std::size_t child = 2 * std::size_t{at} + 1;
    if (child >= heap.size()) break;
    if (child + 1 < heap.size() && before(heap[child + 1], heap[child])) ++child;
    if (!before(heap[child], entry)) break;
    heap[at] = heap[child];
    place_[heap[at].storage] = at;
    at = static_cast<std::uint32_t>(child);
  }
  heap[at] = entry;
  place_[entry.storage] = at;
}

std::uint32_t EvictionPool::last() const {
  std::uint32_t found = kOut;
  for (const Bucket& bucket : buckets_) {
    for (const Entry& entry : bucket.heap) {
      const std::uint32_t x = entry.storage;
      if (found == kOut || sequence_[x] > sequence_[found]) found = x;
    }
  }
  return found;
}

}  // namespace tidemark
