#include "sim/result/out_of_memory.hpp"

#include <algorithm>
#include <unordered_map>

namespace tidemark {
namespace {

// The blocks of a program by the piece of memory that each was given.
template <class A>
auto owners_of(const A& allocator, std::size_t blocks) {
  std::unordered_map<decltype(allocator.given(BlockId())), BlockId> owners;
  for (std::size_t b = 0; b < blocks; ++b) {
    const BlockId block(b);
    if (const auto* piece = allocator.given(block)) owners.emplace(piece, block);
  }
  return owners;
}

// Adds pieces of one segment in the order of their addresses.
class SegmentSum {
 public:
  explicit SegmentSum(std::int64_t address) { segment_.address = address; }
  void add_free(std::int64_t bytes) {
    segment_.size += bytes;
    segment_.free += bytes;
    segment_.largest_free = std::max(segment_.largest_free, bytes);
  }
  void add_pin(std::int64_t bytes, BlockId block) {
    segment_.size += bytes;
    segment_.pins.push_back(block);
  }
  void close(OutOfMemory& report) {
    report.free_in_segments += segment_.free;
    if (segment_.free > 0 && !segment_.pins.empty())
      report.partly_free.push_back(std::move(segment_));
  }

 private:
  PinnedSegment segment_;
};

void sort_by_free(std::vector<PinnedSegment>& segments) {
  std::stable_sort(segments.begin(), segments.end(),
                   [](const PinnedSegment& a, const PinnedSegment& b) { return a.free > b.free; });
}

}  // namespace

OutOfMemory out_of_memory(const TorchAllocator& allocator, std::int64_t requested,
                          std::size_t blocks) {
  const TorchCachingAllocator& core = allocator.core();
  OutOfMemory report{.requested = requested,
                     .rounded = core.rounded(requested),
                     .segment = TorchCachingAllocator::segment_size(core.rounded(requested)),
                     .device_free = core.out_of_memory().device_free,
                     .allowed = core.out_of_memory().allowed,
                     .largest_free = core.largest_free(requested, allocator.stream())};
  const auto owners = owners_of(allocator, blocks);
  for (const TorchSegment& segment : core.segments()) {
    SegmentSum sum(segment.address);
    for (const TorchBlock* block : segment.blocks) {
      if (block->is_idle()) {
        sum.add_free(block->size);
      } else {
        sum.add_pin(block->size, owners.at(block));
      }
    }
    sum.close(report);
  }
  sort_by_free(report.partly_free);
  report.message = message_of(core.out_of_memory());
  return report;
}

OutOfMemory out_of_memory(const BfcAllocator& allocator, std::int64_t requested,
                          std::size_t blocks) {
  OutOfMemory report{.requested = requested,
                     .rounded = BfcAllocator::rounded(requested),
                     .segment = BfcAllocator::rounded(requested),
                     .device_free = allocator.device_free(),
                     .allowed = allocator.allowed(),
                     .largest_free = allocator.largest_free()};
  const auto owners = owners_of(allocator, blocks);
  std::vector<const BfcChunk*> regions;
  allocator.for_each_chunk([&](const BfcChunk& chunk) {
    if (chunk.previous == nullptr) regions.push_back(&chunk);
  });
  std::sort(regions.begin(), regions.end(),
            [](const BfcChunk* a, const BfcChunk* b) { return a->address < b->address; });
  for (const BfcChunk* region : regions) {
    SegmentSum sum(region->address);
    for (const BfcChunk* chunk = region; chunk != nullptr; chunk = chunk->next) {
      if (const auto owner = owners.find(chunk); owner != owners.end()) {
        sum.add_pin(chunk->size, owner->second);
      } else {
        sum.add_free(chunk->size);
      }
    }
    sum.close(report);
  }
  sort_by_free(report.partly_free);
  return report;
}

OutOfMemory out_of_memory(const IdealAllocator& allocator, std::int64_t requested,
                          std::size_t /*blocks*/) {
  return {.requested = requested,
          .rounded = requested,
          .segment = requested,
          .device_free = allocator.capacity() - allocator.reserved(),
          .allowed = std::nullopt,
          .partly_free = {},
          .message = {}};
}

OutOfMemory out_of_memory(const PackedAllocator& allocator, std::int64_t requested,
                          std::size_t /*blocks*/) {
  const std::int64_t rounded =
      (requested + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
  return {.requested = requested,
          .rounded = rounded,
          .segment = rounded,
          .device_free = allocator.capacity() - allocator.reserved(),
          .allowed = std::nullopt,
          .free_in_segments = allocator.reserved() - allocator.active(),
          .partly_free = {},
          .message = {}};
}

}  // namespace tidemark
