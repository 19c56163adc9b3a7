#include "sim/memory/bfc_allocator.hpp"

#include <algorithm>

namespace tidemark {
namespace bfc_allocator_detail {
namespace {

// tsl/framework/bfc_allocator.cc
constexpr std::int64_t kMinAllocation = 256;
constexpr std::int64_t kFirstRegion = std::int64_t{2} << 20;  // first region with allow_growth
constexpr std::int64_t kLargestRest = std::int64_t{128} << 20;
constexpr double kBackOff = 0.9;  // factor on a region that the device refused

constexpr std::int64_t round_up(std::int64_t bytes) {
  return (bytes + kMinAllocation - 1) / kMinAllocation * kMinAllocation;
}

std::int64_t share_of(std::int64_t bytes, double share) {
  return static_cast<std::int64_t>(static_cast<double>(bytes) * share);
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
      limit_(bfc_allocator_detail::share_of(capacity.count, options.memory_fraction)),
      largest_rest_(bfc_allocator_detail::kLargestRest),
      next_region_(bfc_allocator_detail::kFirstRegion) {
  limit_ = std::min(limit_, capacity.count) / bfc_allocator_detail::kMinAllocation *
           bfc_allocator_detail::kMinAllocation;
  if (options.fragmentation_fraction > 0) {
    largest_rest_ = bfc_allocator_detail::share_of(limit_, options.fragmentation_fraction);
  }
  if (!options.allow_growth) next_region_ = limit_;
}

std::int64_t BfcAllocator::rounded(std::int64_t bytes) {
  return bfc_allocator_detail::round_up(bytes);
}

void BfcAllocator::reserve(std::size_t allocations) {
  constexpr std::size_t kRegions = 64;
  chunk_of_.assign(allocations, nullptr);
  arena_.reserve(2 * allocations + kRegions);
}

AllocationResult BfcAllocator::allocate(AllocationId allocation, std::int64_t bytes) {
  const std::int64_t mallocs = device_.mallocs();
  const std::int64_t frees = device_.frees();
  BfcChunk* chunk = allocate(bytes);
  chunk_of_[allocation.index()] = chunk;
  return {.ok = chunk != nullptr,
          .device_mallocs = static_cast<int>(device_.mallocs() - mallocs),
          .device_frees = static_cast<int>(device_.frees() - frees)};
}

BfcChunk* BfcAllocator::allocate(std::int64_t bytes) {
  const std::int64_t size = bfc_allocator_detail::round_up(bytes);
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

BfcChunk* BfcAllocator::find(std::int64_t size) {
  BfcChunk key;
  key.size = size;
  key.address = -1;
  const auto found = free_.lower_bound(key);
  return found == free_.end() ? nullptr : &*found;
}

// Takes a further region: twice the last one, until the request fits, as far as the limit allows.
bool BfcAllocator::extend(std::int64_t size) {
  const std::int64_t available = limit_ - device_.used();
  if (size > available) return false;
  const bool doubles = next_region_ < size;
  while (next_region_ < size)
    next_region_ *= 2;
  std::int64_t bytes = std::min(next_region_, available) / bfc_allocator_detail::kMinAllocation *
                       bfc_allocator_detail::kMinAllocation;
  std::int64_t address = device_.allocate(bytes);
  if (address == FakeDevice::kFailed && !has_backed_off_) {
    has_backed_off_ = true;
    while (address == FakeDevice::kFailed) {
      bytes = bfc_allocator_detail::round_up(
          bfc_allocator_detail::share_of(bytes, bfc_allocator_detail::kBackOff));
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
bool BfcAllocator::free_regions(std::int64_t size) {
  if (!options_.garbage_collection) return false;
  const std::int64_t bytes = free_region_bytes_;
  if (bytes == 0 || size > limit_ - device_.used() + bytes) return false;
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

void BfcAllocator::split(BfcChunk& chunk, std::int64_t size) {
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
  std::int64_t free_bytes = 0;
  std::int64_t largest = 0;
  for (const BfcChunk& chunk : free_) {
    free_bytes += chunk.size;
    largest = chunk.size;
  }
  if (free_bytes == 0) return 0;
  return static_cast<double>(free_bytes - largest) / static_cast<double>(free_bytes);
}

}  // namespace tidemark
