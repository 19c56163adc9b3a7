#include "sim/memory/bfc_allocator.hpp"

#include <algorithm>

namespace tidemark {
namespace bfc_allocator_detail {
namespace {

// tsl/framework/bfc_allocator.cc
constexpr Bytes kMinAllocation{256};
constexpr Bytes kFirstRegion = 2 * kMiB;  // first region with allow_growth
constexpr Bytes kLargestRest = 128 * kMiB;
constexpr double kBackOff = 0.9;  // factor on a region that the device refused

// Returns the largest multiple of kMinAllocation that is not above a size.
constexpr Bytes round_down(Bytes bytes) {
  return bytes / kMinAllocation * kMinAllocation;
}

Bytes share_of(Bytes bytes, double share) {
  return Bytes(static_cast<std::int64_t>(static_cast<double>(bytes.count) * share));
}

}  // namespace
}  // namespace bfc_allocator_detail

BfcOptions decode_bfc_options(const Decoder& allocator) {
  BfcOptions options;
  options.allow_growth = allocator.optional<bool>("allow_growth", options.allow_growth);
  options.memory_fraction = allocator.optional<double>("memory_fraction", options.memory_fraction,
                                                       {.low = 0, .high = 1, .low_excluded = true});
  options.fragmentation_fraction = allocator.optional<double>(
      "fragmentation_fraction", options.fragmentation_fraction, between(0, 1));
  options.garbage_collection =
      allocator.optional<bool>("garbage_collection", options.garbage_collection);
  return options;
}

BfcAllocator::BfcAllocator(Bytes capacity, const BfcOptions& options)
    : options_(options),
      device_(capacity),
      limit_(bfc_allocator_detail::share_of(capacity, options.memory_fraction)),
      largest_rest_(bfc_allocator_detail::kLargestRest),
      next_region_(bfc_allocator_detail::kFirstRegion) {
  limit_ = bfc_allocator_detail::round_down(std::min(limit_, capacity));
  if (options.fragmentation_fraction > 0) {
    largest_rest_ = bfc_allocator_detail::share_of(limit_, options.fragmentation_fraction);
  }
  if (!options.allow_growth) next_region_ = limit_;
}

Bytes BfcAllocator::rounded(Bytes bytes) {
  return round_up(bytes, bfc_allocator_detail::kMinAllocation);
}

void BfcAllocator::reserve(std::size_t allocations) {
  constexpr std::size_t kRegions = 64;
  chunk_of_.assign(allocations, nullptr);
  arena_.reserve(2 * allocations + kRegions);
}

AllocationResult BfcAllocator::allocate(AllocationId allocation, Bytes bytes) {
  const std::int64_t mallocs = device_.mallocs();
  const std::int64_t frees = device_.frees();
  BfcChunk* chunk = allocate(bytes);
  chunk_of_[allocation.index()] = chunk;
  return {.ok = chunk != nullptr,
          .device_mallocs = static_cast<int>(device_.mallocs() - mallocs),
          .device_frees = static_cast<int>(device_.frees() - frees)};
}

BfcChunk* BfcAllocator::allocate(Bytes bytes) {
  const Bytes size = rounded(bytes);
  BfcChunk* chunk = find(size);
  if (chunk == nullptr && extend(size)) chunk = find(size);
  if (chunk == nullptr && free_regions(size) && extend(size)) chunk = find(size);
  if (chunk == nullptr) return nullptr;
  erase_free(*chunk);
  if (chunk->size >= 2 * size || chunk->size - size >= largest_rest_) split(*chunk, size);
  chunk->in_use = true;
  chunk->requested = bytes;
  allocated_ += chunk->size;
  active_ += chunk->size;
  return chunk;
}

BfcChunk* BfcAllocator::find(Bytes size) {
  BfcChunk key;
  key.size = size;
  key.address = Bytes(-1);
  const auto found = free_.lower_bound(key);
  return found == free_.end() ? nullptr : &*found;
}

// Takes a further region: twice the last one, until the request fits, as far as the limit allows.
bool BfcAllocator::extend(Bytes size) {
  const Bytes available = limit_ - device_.used();
  if (size > available) return false;
  const bool doubles = next_region_ < size;
  while (next_region_ < size)
    next_region_ = 2 * next_region_;
  Bytes bytes = bfc_allocator_detail::round_down(std::min(next_region_, available));
  Bytes address = device_.allocate(bytes);
  if (address == FakeDevice::kFailed && !has_backed_off_) {
    has_backed_off_ = true;
    while (address == FakeDevice::kFailed) {
      bytes = rounded(bfc_allocator_detail::share_of(bytes, bfc_allocator_detail::kBackOff));
      if (bytes < size) break;
      address = device_.allocate(bytes);
    }
  }
  if (address == FakeDevice::kFailed) return false;
  if (!doubles) next_region_ = std::min(next_region_ * 2, limit_);
  BfcChunk* chunk = arena_.take();
  chunk->size = bytes;
  chunk->address = address;
  insert_free(*chunk);
  ++regions_;
  return true;
}

// Gives back regions that are one free chunk, if that can make room for the request.
bool BfcAllocator::free_regions(Bytes size) {
  if (!options_.garbage_collection) return false;
  const Bytes bytes = free_region_bytes_;
  if (bytes == Bytes(0) || size > limit_ - device_.used() + bytes) return false;
  for (auto it = free_.begin(); it != free_.end();) {
    BfcChunk& chunk = *it++;
    if (!chunk.is_region()) continue;
    erase_free(chunk);
    device_.free(chunk.size);
    --regions_;
    arena_.give_back(&chunk);
  }
  return true;
}

void BfcAllocator::insert_free(BfcChunk& chunk) {
  if (chunk.is_region()) free_region_bytes_ += chunk.size;
  free_.insert(chunk);
}

void BfcAllocator::erase_free(BfcChunk& chunk) {
  if (chunk.is_region()) free_region_bytes_ -= chunk.size;
  free_.erase(free_.iterator_to(chunk));
}

void BfcAllocator::split(BfcChunk& chunk, Bytes size) {
  BfcChunk* rest = arena_.take();
  rest->size = chunk.size - size;
  rest->address = chunk.address + size;
  rest->previous = &chunk;
  rest->next = chunk.next;
  if (chunk.next != nullptr) chunk.next->previous = rest;
  chunk.next = rest;
  chunk.size = size;
  insert_free(*rest);
}

void BfcAllocator::join(BfcChunk& left, BfcChunk& right) {
  left.size += right.size;
  left.next = right.next;
  if (right.next != nullptr) right.next->previous = &left;
  arena_.give_back(&right);
}

void BfcAllocator::defer_free(BfcChunk& chunk) {
  allocated_ -= chunk.size;
  chunk.deferred = true;
}

void BfcAllocator::free(BfcChunk& chunk) {
  active_ -= chunk.size;
  if (!chunk.deferred) allocated_ -= chunk.size;
  chunk.in_use = false;
  chunk.deferred = false;
  BfcChunk* joined = &chunk;
  if (BfcChunk* next = chunk.next; next != nullptr && !next->in_use) {
    erase_free(*next);
    join(chunk, *next);
  }
  if (BfcChunk* previous = chunk.previous; previous != nullptr && !previous->in_use) {
    erase_free(*previous);
    join(*previous, chunk);
    joined = previous;
  }
  insert_free(*joined);
}

double BfcAllocator::fragmentation() const {
  Bytes free_bytes;
  Bytes largest;
  for (const BfcChunk& chunk : free_) {
    free_bytes += chunk.size;
    largest = chunk.size;
  }
  if (free_bytes == Bytes(0)) return 0;
  return static_cast<double>((free_bytes - largest).count) / static_cast<double>(free_bytes.count);
}

}  // namespace tidemark
