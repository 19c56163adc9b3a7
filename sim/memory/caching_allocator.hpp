// A first model of PyTorch's CUDA caching allocator on one stream: 512-byte rounding, a small and a
// large pool, segments of 2 MiB, 20 MiB or the request rounded to 2 MiB, best fit by size then
// address, splitting, coalescing inside a segment, and giving back whole free segments on a retry.
// Not modelled here: options of PYTORCH_CUDA_ALLOC_CONF, expandable segments, pools per stream.
#pragma once

#include <cstdint>
#include <vector>

#include <boost/intrusive/set.hpp>

#include "sim/memory/allocator.hpp"

namespace tidemark {

class CachingAllocator {
 public:
  // `capacity`: bytes that cudaMalloc can hand out to this process, the context not included.
  explicit CachingAllocator(Bytes capacity) : capacity_(capacity.count) {}
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;
  ~CachingAllocator() {
    free_[0].clear();
    free_[1].clear();
  }

  void reserve(std::size_t blocks);
  Allocation allocate(BlockId block, std::int64_t bytes);
  void free(BlockId block);
  void defer_free(BlockId block);
  int release_cached();
  [[nodiscard]] std::int64_t allocated() const { return allocated_; }
  [[nodiscard]] std::int64_t active() const { return active_; }
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }
  [[nodiscard]] std::int64_t address(BlockId block) const {
    return chunks_[chunk_of_[block.index()]].address;
  }
  [[nodiscard]] std::size_t segments() const { return segments_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  // A piece of a segment; neighbours in address order are linked.
  struct Chunk : boost::intrusive::set_base_hook<boost::intrusive::optimize_size<true>> {
    std::int64_t size = 0;
    std::int64_t address = 0;
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
    bool large = false;
    friend bool operator<(const Chunk& a, const Chunk& b) {
      return a.size != b.size ? a.size < b.size : a.address < b.address;
    }
  };
  using FreeSet = boost::intrusive::set<Chunk>;

  [[nodiscard]] std::uint32_t new_chunk();
  [[nodiscard]] std::uint32_t index_of(const Chunk& chunk) const {
    return static_cast<std::uint32_t>(&chunk - chunks_.data());
  }
  [[nodiscard]] std::uint32_t find_free(std::int64_t size, bool large);
  [[nodiscard]] std::uint32_t new_segment(std::int64_t size, bool large);
  void split(std::uint32_t chunk, std::int64_t size);
  std::uint32_t merge(std::uint32_t left, std::uint32_t right);

  std::int64_t capacity_;
  std::int64_t allocated_ = 0;
  std::int64_t active_ = 0;
  std::int64_t reserved_ = 0;
  std::int64_t next_address_ = 0;
  std::size_t segments_ = 0;
  std::vector<Chunk> chunks_;  // reserved once: iterators into the free sets stay valid
  std::vector<std::uint32_t> unused_;
  std::vector<std::uint32_t> chunk_of_;  // by block
  std::vector<char> deferred_;           // by block: freed, but a stream may still use it
  FreeSet free_[2];                      // small, large
};

static_assert(Allocator<CachingAllocator>);

}  // namespace tidemark
